// Log mass and tilted mean of weighted sources, for a batch of covectors, on the CPU.
//
// The kernel is compiled for three instruction sets and the best one that the machine has is chosen when it runs. Arrays may have
// leading dimensions: a batch of sums, whose tiles all go to the same threads.

#include <chrono>

#include "kernels.h"
#include "powers.h"

namespace {

// What all tiles of a sum share about its sources: bounds, and the weights both as powers of two and as exponents.
template <typename T>
struct Sources {
  const T *sources, *log_weights;
  T *exponents, *weights, *weighted;
  T radius, top_weight, weight_range;

  void prepare(int64_t n, int64_t d) {
    radius = 0, top_weight = -std::numeric_limits<T>::infinity();
    T low = std::numeric_limits<T>::infinity();
    for (int64_t j = 0; j < n; ++j) {
      T norm = 0;
      for (int64_t k = 0; k < d; ++k) norm += sources[j * d + k] * sources[j * d + k];
      radius = norm > radius || norm != norm ? norm : radius;
      top_weight = std::max(top_weight, log_weights[j]);
      low = std::min(low, log_weights[j]);
    }
    radius = std::sqrt(radius);
    weight_range = top_weight - low;
    // Where weights span far, tiles use the exponents alone.
    const bool products = weight_range < Constants<T>::span && weight_range > 0;
    for (int64_t j = 0; j < n; ++j) {
      exponents[j] = (log_weights[j] - top_weight) * Constants<T>::log2e;
      if (!products) continue;
      weights[j] = std::exp(log_weights[j] - top_weight);
      for (int64_t k = 0; k < d; ++k) weighted[j * d + k] = weights[j] * sources[j * d + k];
    }
  }
};

template <typename T>
struct Problem : Sources<T> {
  int64_t m, n, d;
  const T* covectors;
  T *log_mass, *mean;
};

// Averages of other values: sum_j e^{<a_i, y_j> + b_i + w_j} z_j, where no exponent is above zero but by rounding.
template <typename T>
struct Averages {
  int64_t m, n, d, e;
  const T *covectors, *offsets, *sources, *log_weights, *values;
  T* out;
};

// So few pairs that a task is not worth asking for.
constexpr int64_t LEAST_TASK = 1 << 14;

#define KERNEL "kernel.inc"
#include "levels.inc"

// A thread costs some microseconds to wake: worth it from about a hundred thousand pairs on.
int64_t useful(int64_t pairs) { return 1 + pairs / 100000; }

template <typename T>
void run_attend(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer log_mass, ffi::AnyBuffer mean,
                Helpers helpers, int level) {
  const auto batch = log_mass.dimensions();
  const int64_t m = batch.back(), d = a.dimensions().back(), n = w.dimensions().back();
  const auto A = members<T>(a, 2, batch), Y = members<T>(y, 2, batch), W = members<T>(w, 1, batch);
  const auto L = members<T>(log_mass, 1, batch), M = members<T>(mean, 2, batch);
  const int64_t size = A.size(), workers = useful(size * m * n), width = n * (2 + d);
  const bool shared = y.element_count() == n * d && w.element_count() == n;
  std::vector<Sources<T>> sources(shared ? 1 : size);
  std::unique_ptr<T[]> store(new T[sources.size() * width]);
  for (size_t i = 0; i < sources.size(); ++i) {
    T* begin = store.get() + i * width;
    sources[i] = {Y[i], W[i], begin, begin + n, begin + 2 * n};
  }
  helpers.share(shared ? 1 : workers, sources, [=](auto& sources, auto& next) {
    for (int64_t i = next++; i < static_cast<int64_t>(sources.size()); i = next++) sources[i].prepare(n, d);
  });
  std::vector<Problem<T>> problems;
  for (int64_t i = 0; i < size; ++i) problems.push_back({sources[shared ? 0 : i], m, n, d, A[i], L[i], M[i]});
  AT_LEVEL(level, helpers.share(workers, problems, attend_tiles<T>))
}

template <typename T>
void run_average(ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer z, ffi::AnyBuffer out,
                 Helpers helpers, int level) {
  const auto batch = out.dimensions();
  const int64_t m = b.dimensions().back(), d = a.dimensions().back(), n = w.dimensions().back(), e = batch.back();
  const auto A = members<T>(a, 2, batch), B = members<T>(b, 1, batch), Y = members<T>(y, 2, batch);
  const auto W = members<T>(w, 1, batch), Z = members<T>(z, 2, batch), O = members<T>(out, 2, batch);
  std::vector<Averages<T>> problems;
  for (size_t i = 0; i < A.size(); ++i) problems.push_back({m, n, d, e, A[i], B[i], Y[i], W[i], Z[i], O[i]});
  AT_LEVEL(level, helpers.share(useful(A.size() * m * n), problems, average_tiles<T>))
}

ffi::Error attend(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::Result<ffi::AnyBuffer> log_mass,
                  ffi::Result<ffi::AnyBuffer> mean, ffi::ThreadPool pool, int32_t threads, int32_t level) {
  return by_type(a, [&](auto zero) { run_attend<decltype(zero)>(a, y, w, *log_mass, *mean, {pool, threads}, level); });
}

ffi::Error average(ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer z,
                   ffi::Result<ffi::AnyBuffer> out, ffi::ThreadPool pool, int32_t threads, int32_t level) {
  return by_type(a, [&](auto zero) { run_average<decltype(zero)>(a, b, y, w, z, *out, {pool, threads}, level); });
}

// How many exponentials a second all cores do together.
template <typename F>
double rate(F exponentials) {
  const int threads = std::max(1u, std::thread::hardware_concurrency());
  const int64_t rounds = 2000000;
  std::vector<int64_t> counts(threads);
  std::vector<std::thread> others;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < threads; ++i) others.emplace_back([&, i] { counts[i] = exponentials(rounds); });
  for (auto& other : others) other.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  return threads * counts[0] / seconds.count();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(measureflow_average, average,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int32_t>("threads")
                                  .Attr<int32_t>("level"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(measureflow_attend, attend,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<int32_t>("threads")
                                  .Attr<int32_t>("level"));

// Which constants.py the library was built from.
extern "C" const char* measureflow_constants() { return CONSTANTS_DIGEST; }

extern "C" int measureflow_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return AVX2;
#endif
  return BASELINE;
}

extern "C" const char* measureflow_level_name() {
  constexpr const char* names[] = {"baseline", "avx2", "avx512"};
  return names[measureflow_level()];
}

// How many exponentials a second all cores do, 0 for float and 1 for double: the limit of every exact sum.
extern "C" double measureflow_limit(int is_double) {
  double found = 0;
  AT_LEVEL(-1, found = is_double ? rate(exponentials<double>) : rate(exponentials<float>))
  return found;
}
