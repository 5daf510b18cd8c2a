// Constants of powers of two.

#pragma once

#include <cstdint>

#include "constants.h"

namespace {

template <typename T>
struct Integer;
template <>
struct Integer<float> {
  typedef int32_t type;
};
template <>
struct Integer<double> {
  typedef int64_t type;
};

// Powers of two on |r| <= 1/2 by the polynomial of least relative error, from the highest degree down: 7.5e-8 in float32
// and 3.1e-18 in float64, below a rounding error.
template <typename T>
struct Constants;
template <>
struct Constants<float> {
  static constexpr float log2e = 1.44269504f, magic = 12582912.0f, least = -125.0f, span = SPAN_FLOAT32;
  static constexpr int mantissa = 23, degree = 5;
  static constexpr float poly[degree + 1] = {1.3276472168e-3f, 9.675541331e-3f, 5.5507132729e-2f,
                                             0.24022119724f,   0.69314696707f,  1.0000000717f};
};
template <>
struct Constants<double> {
  static constexpr double log2e = 1.4426950408889634, magic = 6755399441055744.0, least = -1021.0, span = SPAN_FLOAT64;
  static constexpr int mantissa = 52, degree = 11;
  static constexpr const double (&poly)[degree + 1] = POWER_OF_TWO;
};

}  // namespace
