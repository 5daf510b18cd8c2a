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
std::vector<double> moments_of(P& p, int64_t width, int64_t threads, F work) {
  p.block = std::max(LEAST_BLOCK, (p.n + MOST_BLOCKS - 1) / MOST_BLOCKS);
  const int64_t count = (p.n + p.block - 1) / p.block;
  std::vector<double> storage(count * width), moment(width);
  std::vector<Block> blocks(count);
  for (int64_t b = 0; b < count; ++b) blocks[b].moments = storage.data() + b * width;
  p.blocks = blocks.data();
  in_threads(threads, p, work);
  p.top = -std::numeric_limits<double>::infinity();
  p.off = 0;
  for (const Block& block : blocks) p.top = std::max(p.top, block.top), p.off = std::max(p.off, block.off);
  for (const Block& block : blocks)
    for (int64_t k = 0; k < width; ++k) moment[k] += std::exp(block.top - p.top) * block.moments[k];
  p.total = moment[0];
  return moment;
}

// The sum P<T> from its arrays.
template <template <typename> class P, typename T>
P<T> sum_of(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::AnyBuffer log_mass, ffi::AnyBuffer mean,
            ffi::AnyBuffer missed, double tolerance) {
  P<T> p{};
  p.m = a.dimensions()[0], p.n = y.dimensions()[0], p.tolerance = tolerance;
  p.covectors = a.typed_data<T>(), p.sources = y.typed_data<T>(), p.log_weights = w.typed_data<T>();
  p.log_mass = log_mass.typed_data<T>(), p.mean = mean.typed_data<T>(), p.missed = missed.typed_data<bool>();
  return p;
}

// The handler `name` of a series: SUM is its struct and `statement` what attends to a sum `p` of type T by so many threads.
#define SERIES_HANDLER(name, SUM, statement)                                                                          \
  static ffi::Error name##_handler(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w,                              \
                                   ffi::Result<ffi::AnyBuffer> log_mass, ffi::Result<ffi::AnyBuffer> mean,            \
                                   ffi::Result<ffi::AnyBuffer> missed, double tolerance, int32_t asked, int32_t level) { \
    const int threads = all_cores_unless(asked);                                                                      \
    return by_type(a, [&](auto zero) {                                                                                \
      typedef decltype(zero) T;                                                                                       \
      auto p = sum_of<SUM, T>(a, y, w, *log_mass, *mean, *missed, tolerance);                                         \
      AT_LEVEL(level, statement)                                                                                      \
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
                                    .Attr<double>("tolerance")                                                        \
                                    .Attr<int32_t>("threads")                                                         \
                                    .Attr<int32_t>("level"));

}  // namespace
