// Log mass and tilted mean of weighted sources, for a batch of covectors, on the CPU.
//
// The kernel is compiled for three instruction sets and the best one that the machine has is chosen when it runs.

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Powers of two on |r| <= 1/2 by the polynomial of least relative error, from the highest degree down: 7.5e-8 in float32
// and 3.1e-18 in float64, below a rounding error.
template <typename T>
struct Constants;
template <>
struct Constants<float> {
  static constexpr float log2e = 1.44269504f, magic = 12582912.0f, least = -125.0f, span = 60.0f;
  static constexpr int mantissa = 23, degree = 5;
  static constexpr float poly[degree + 1] = {1.3276472168e-3f, 9.675541331e-3f, 5.5507132729e-2f,
                                             0.24022119724f,   0.69314696707f,  1.0000000717f};
};
template <>
struct Constants<double> {
  static constexpr double log2e = 1.4426950408889634, magic = 6755399441055744.0, least = -1021.0, span = 600.0;
  static constexpr int mantissa = 52, degree = 11;
  static constexpr double poly[degree + 1] = {
      4.435280944610336161e-10, 7.074105626245659371e-9, 1.017819803332852766e-7, 1.321543308959462904e-6,
      1.52527334899608046e-5,   1.540353046251461303e-4, 1.333355814678995032e-3, 9.618129107588335083e-3,
      5.550410866481992148e-2,  0.240226506959101562,    0.6931471805599453305,   0.9999999999999999971};
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

// What all tiles share: bounds of the sources, and their weights both as powers of two and as exponents.
template <typename T, template <typename> class P>
static P<T> problem(int64_t m, int64_t n, int64_t d, const T* a, const T* y, const T* w, T* log_mass, T* mean,
                    std::vector<T>& store) {
  T radius = 0, top = -std::numeric_limits<T>::infinity(), low = std::numeric_limits<T>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    T norm = 0;
    for (int64_t k = 0; k < d; ++k) norm += y[j * d + k] * y[j * d + k];
    radius = norm > radius || norm != norm ? norm : radius;
    top = std::max(top, w[j]);
    low = std::min(low, w[j]);
  }
  // Where weights span far, tiles use the exponents alone.
  const bool products = top - low < Constants<T>::span && top > low;
  store.resize(n * (products ? 2 + d : 1));
  T *exponents = store.data(), *weights = exponents + n, *weighted = weights + n;
  for (int64_t j = 0; j < n; ++j) {
    exponents[j] = (w[j] - top) * Constants<T>::log2e;
    if (!products) continue;
    weights[j] = std::exp(w[j] - top);
    for (int64_t k = 0; k < d; ++k) weighted[j * d + k] = weights[j] * y[j * d + k];
  }
  return {m, n, d, a, y, exponents, weights, weighted, log_mass, mean, std::sqrt(radius), top, top - low};
}

template <typename T>
static ffi::Error run(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::Result<ffi::AnyBuffer> log_mass,
                      ffi::Result<ffi::AnyBuffer> mean, int threads, int level) {
  const int64_t m = a.dimensions()[0], d = a.dimensions()[1], n = y.dimensions()[0];
  const T *A = a.typed_data<T>(), *Y = y.typed_data<T>(), *W = w.typed_data<T>();
  T *L = log_mass->typed_data<T>(), *M = mean->typed_data<T>();
  std::vector<T> store;
  // A thread costs some ten microseconds to start: worth it from about a hundred thousand pairs on.
  const int useful = static_cast<int>(std::min<int64_t>(threads, 1 + m * n / 100000));
  switch (level < 0 ? best_level() : std::min(level, best_level())) {
#if defined(__x86_64__)
    case AVX512:
      in_threads(useful, problem<T, avx512::Problem>(m, n, d, A, Y, W, L, M, store), avx512::work<T>);
      break;
    case AVX2:
      in_threads(useful, problem<T, avx2::Problem>(m, n, d, A, Y, W, L, M, store), avx2::work<T>);
      break;
#endif
    default:
      in_threads(useful, problem<T, baseline::Problem>(m, n, d, A, Y, W, L, M, store), baseline::work<T>);
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

template <typename T>
static ffi::Error run_average(ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer z,
                              ffi::Result<ffi::AnyBuffer> out, int threads, int level) {
  const int64_t m = a.dimensions()[0], d = a.dimensions()[1], n = y.dimensions()[0], e = z.dimensions()[1];
  const T *A = a.typed_data<T>(), *B = b.typed_data<T>(), *Y = y.typed_data<T>(), *W = w.typed_data<T>(), *Z = z.typed_data<T>();
  T* O = out->typed_data<T>();
  const int useful = static_cast<int>(std::min<int64_t>(threads, 1 + m * n / 100000));
  switch (level < 0 ? best_level() : std::min(level, best_level())) {
#if defined(__x86_64__)
    case AVX512:
      in_threads(useful, avx512::Averages<T>{m, n, d, e, A, B, Y, W, Z, O}, avx512::average<T>);
      break;
    case AVX2:
      in_threads(useful, avx2::Averages<T>{m, n, d, e, A, B, Y, W, Z, O}, avx2::average<T>);
      break;
#endif
    default:
      in_threads(useful, baseline::Averages<T>{m, n, d, e, A, B, Y, W, Z, O}, baseline::average<T>);
  }
  return ffi::Error::Success();
}

static ffi::Error average(ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer z,
                          ffi::Result<ffi::AnyBuffer> out, int32_t threads, int32_t level) {
  if (threads < 1) threads = std::max(1u, std::thread::hardware_concurrency());
  switch (a.element_type()) {
    case ffi::F32:
      return run_average<float>(a, b, y, w, z, out, threads, level);
    case ffi::F64:
      return run_average<double>(a, b, y, w, z, out, threads, level);
    default:
      return ffi::Error::InvalidArgument("measureflow_average takes float32 or float64");
  }
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(measureflow_average, average,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int32_t>("threads")
                                  .Attr<int32_t>("level"));

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

template <typename T, typename F>
static double rate(F exponentials, int lanes) {
  const int threads = std::max(1u, std::thread::hardware_concurrency());
  const int64_t rounds = 2000000;
  std::vector<T> sums(threads);
  std::vector<std::thread> others;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < threads; ++i) others.emplace_back([&, i] { sums[i] = exponentials(rounds); });
  for (auto& other : others) other.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  return sums[0] > 0 ? threads * rounds * 8.0 * lanes / seconds.count() : 0;
}

// How many exponentials a second all cores do, 0 for float and 1 for double: the limit of every exact sum.
extern "C" double measureflow_limit(int is_double) {
  switch (best_level()) {
#if defined(__x86_64__)
    case AVX512:
      return is_double ? rate<double>(avx512::exponentials<double>, 8) : rate<float>(avx512::exponentials<float>, 16);
    case AVX2:
      return is_double ? rate<double>(avx2::exponentials<double>, 4) : rate<float>(avx2::exponentials<float>, 8);
#endif
    default:
      return is_double ? rate<double>(baseline::exponentials<double>, 2) : rate<float>(baseline::exponentials<float>, 4);
  }
}
