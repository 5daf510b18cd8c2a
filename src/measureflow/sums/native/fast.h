// What the series on the circle and on the sphere share.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

#define INLINE __attribute__((always_inline)) inline

extern "C" int measureflow_level();  // in attend.cc

namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
constexpr int64_t RUN = 4096, LEAST_BLOCK = 4096, MOST_BLOCKS = 256;

enum Level { BASELINE = 0, AVX2 = 1, AVX512 = 2 };

template <typename P, typename F>
void in_threads(int64_t threads, const P& p, F work) {
  std::atomic<int64_t> next{0};
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads; ++i) others.emplace_back([&] { work(p, next); });
  work(p, next);
  for (auto& other : others) other.join();
}

}  // namespace
