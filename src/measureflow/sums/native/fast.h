// What the series on the circle and on the sphere share.

#include <complex>

#include "kernels.h"

namespace {

constexpr double EPS = std::numeric_limits<double>::epsilon();
constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
constexpr int64_t RUN = 4096, LEAST_BLOCK = 4096, MOST_BLOCKS = 256;

struct Block {
  double* moments;
  double top, off;  // the largest log weight, and how far norms are from 1
};

// The arrays of a sum, and what its covectors must know of all sources.
template <typename T>
struct Sum {
  int64_t m, n, runs, block;
  const T *covectors, *sources, *log_weights;
  T *log_mass, *mean;
  bool* missed;
  Block* blocks;
  double tolerance, truncation, top, total, off;
};

// Blocks of sources for `work`, each with so many moments, and the sum of their moments relative to the largest weight.
template <typename P, typename F>
std::vector<double> moments_of(P& p, int64_t width, Helpers& helpers, int64_t useful, F work) {
  p.block = std::max(LEAST_BLOCK, (p.n + MOST_BLOCKS - 1) / MOST_BLOCKS);
  const int64_t count = (p.n + p.block - 1) / p.block;
  std::vector<double> storage(count * width), moment(width);
  std::vector<Block> blocks(count);
  for (int64_t b = 0; b < count; ++b) blocks[b].moments = storage.data() + b * width;
  p.blocks = blocks.data();
  helpers.share(useful, p, work);
  p.top = -std::numeric_limits<double>::infinity();
  p.off = 0;
  for (const Block& block : blocks) p.top = std::max(p.top, block.top), p.off = std::max(p.off, block.off);
  for (const Block& block : blocks)
    for (int64_t k = 0; k < width; ++k) moment[k] += std::exp(block.top - p.top) * block.moments[k];
  p.total = moment[0];
  return moment;
}

// The sums P<T> of a batch, from their arrays.
template <template <typename> class P, typename T>
std::vector<P<T>> sums_of(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer log_mass, ffi::AnyBuffer mean,
                          ffi::AnyBuffer missed, double tolerance) {
  const auto batch = log_mass.dimensions();
  const auto A = members<T>(a, 2, batch), Y = members<T>(y, 2, batch), W = members<T>(w, 1, batch);
  const auto L = members<T>(log_mass, 1, batch), M = members<T>(mean, 2, batch);
  const auto missing = members<bool>(missed, 1, batch);
  std::vector<P<T>> sums(A.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    P<T>& p = sums[i];
    p.m = batch.back(), p.n = w.dimensions().back(), p.tolerance = tolerance;
    p.covectors = A[i], p.sources = Y[i], p.log_weights = W[i], p.log_mass = L[i], p.mean = M[i], p.missed = missing[i];
  }
  return sums;
}

// Many sums go to threads one by one, few are shared by all threads; `attend` does one with helpers.
template <typename P, typename F>
void each(std::vector<P>& sums, ffi::ThreadPool pool, int threads, F attend) {
  Helpers helpers(pool, threads), none(pool, 1);
  if (static_cast<int64_t>(sums.size()) < helpers.most) {
    for (P& p : sums) attend(p, helpers);
    return;
  }
  helpers.share(helpers.most, sums, [&](auto& sums, auto& next) {
    for (size_t i = next++; i < sums.size(); i = next++) attend(sums[i], none);
  });
}

// The handler `name` of a series: SUM is its struct and `statement` attends to a sum `p` of type T with `helpers`.
#define SERIES_HANDLER(name, SUM, statement)                                                                          \
  static ffi::Error name##_handler(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w,                              \
                                   ffi::Result<ffi::AnyBuffer> log_mass, ffi::Result<ffi::AnyBuffer> mean,            \
                                   ffi::Result<ffi::AnyBuffer> missed, ffi::ThreadPool pool, double tolerance,        \
                                   int32_t threads, int32_t level) {                                                  \
    return by_type(a, [&](auto zero) {                                                                                \
      typedef decltype(zero) T;                                                                                       \
      auto sums = sums_of<SUM, T>(a, y, w, *log_mass, *mean, *missed, tolerance);                                     \
      each(sums, pool, threads, [=](auto& p, Helpers& helpers) { AT_LEVEL(level, statement) });                       \
    });                                                                                                               \
  }                                                                                                                   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, name##_handler,                                                                 \
                                ffi::Ffi::Bind()                                                                      \
                                    .Arg<ffi::AnyBuffer>()                                                            \
                                    .Arg<ffi::AnyBuffer>()                                                            \
                                    .Arg<ffi::AnyBuffer>()                                                            \
                                    .Ret<ffi::AnyBuffer>()                                                            \
                                    .Ret<ffi::AnyBuffer>()                                                            \
                                    .Ret<ffi::AnyBuffer>()                                                            \
                                    .Ctx<ffi::ThreadPool>()                                                           \
                                    .Attr<double>("tolerance")                                                        \
                                    .Attr<int32_t>("threads")                                                         \
                                    .Attr<int32_t>("level"));

}  // namespace
