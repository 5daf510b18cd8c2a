// Log mass and tilted mean of weighted sources, for a batch of covectors, on the CPU.
//
// The kernel is compiled for three instruction sets and the best one that the machine has is chosen when it runs.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

#define INLINE __attribute__((always_inline)) inline

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

// Range reduction and Taylor coefficients 1/k! from the highest degree down to 1/2; on |r| <= ln(2)/2 the first term left
// out is below half a rounding error.
template <typename T>
struct Constants;
template <>
struct Constants<float> {
  static constexpr float log2e = 1.44269504f, magic = 12582912.0f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr float least = -87.0f, span = 60.0f;
  static constexpr int mantissa = 23;
  static constexpr int degree = 6;
  static constexpr float poly[degree] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2};
};
template <>
struct Constants<double> {
  static constexpr double log2e = 1.4426950408889634, magic = 6755399441055744.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double least = -708.0, span = 600.0;
  static constexpr int mantissa = 52;
  static constexpr int degree = 12;
  static constexpr double poly[degree] = {1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
                                          1. / 5040,       1. / 720,       1. / 120,      1. / 24,      1. / 6,      1. / 2};
};

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#define VECTOR_BYTES 64
namespace avx512 {
#include "kernel.inc"
}
#undef VECTOR_BYTES
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define VECTOR_BYTES 32
namespace avx2 {
#include "kernel.inc"
}
#undef VECTOR_BYTES
#pragma GCC pop_options
#endif

#define VECTOR_BYTES 16
namespace baseline {
#include "kernel.inc"
}
#undef VECTOR_BYTES

enum Level { BASELINE = 0, AVX2 = 1, AVX512 = 2 };

static int best_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return AVX2;
#endif
  return BASELINE;
}

template <typename P, typename F>
static void in_threads(int threads, const P& p, F work) {
  std::atomic<int64_t> next{0};
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&] { work(p, next); });
  work(p, next);
  for (auto& other : others) other.join();
}

template <typename T, template <typename> class P>
static P<T> problem(int64_t m, int64_t n, int64_t d, const T* a, const T* y, const T* w, T* log_mass, T* mean) {
  T radius = 0, top = -std::numeric_limits<T>::infinity(), low = std::numeric_limits<T>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    T norm = 0;
    for (int64_t k = 0; k < d; ++k) norm += y[j * d + k] * y[j * d + k];
    radius = norm > radius || norm != norm ? norm : radius;
    top = std::max(top, w[j]);
    low = std::min(low, w[j]);
  }
  return {m, n, d, a, y, w, log_mass, mean, std::sqrt(radius), top, top - low};
}

template <typename T>
static ffi::Error run(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::Result<ffi::AnyBuffer> log_mass,
                      ffi::Result<ffi::AnyBuffer> mean, int threads, int level) {
  const int64_t m = a.dimensions()[0], d = a.dimensions()[1], n = y.dimensions()[0];
  const T *A = a.typed_data<T>(), *Y = y.typed_data<T>(), *W = w.typed_data<T>();
  T *L = log_mass->typed_data<T>(), *M = mean->typed_data<T>();
  // A thread costs some ten microseconds to start: worth it from about a hundred thousand pairs on.
  const int useful = static_cast<int>(std::min<int64_t>(threads, 1 + m * n / 100000));
  switch (level < 0 ? best_level() : std::min(level, best_level())) {
#if defined(__x86_64__)
    case AVX512:
      in_threads(useful, problem<T, avx512::Problem>(m, n, d, A, Y, W, L, M), avx512::work<T>);
      break;
    case AVX2:
      in_threads(useful, problem<T, avx2::Problem>(m, n, d, A, Y, W, L, M), avx2::work<T>);
      break;
#endif
    default:
      in_threads(useful, problem<T, baseline::Problem>(m, n, d, A, Y, W, L, M), baseline::work<T>);
  }
  return ffi::Error::Success();
}

static ffi::Error attend(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::Result<ffi::AnyBuffer> log_mass,
                         ffi::Result<ffi::AnyBuffer> mean, int32_t threads, int32_t level) {
  if (threads < 1) threads = std::max(1u, std::thread::hardware_concurrency());
  switch (a.element_type()) {
    case ffi::F32:
      return run<float>(a, y, w, log_mass, mean, threads, level);
    case ffi::F64:
      return run<double>(a, y, w, log_mass, mean, threads, level);
    default:
      return ffi::Error::InvalidArgument("measureflow_attend takes float32 or float64");
  }
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(measureflow_attend, attend,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int32_t>("threads")
                                  .Attr<int32_t>("level"));

extern "C" int measureflow_level() { return best_level(); }
