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

// The arrays of a sum, and what its covectors must know of all sources and of each other.
//
// A series P<T> adds how it separates the two: `needed` is the degree for its longest covector, `prepare` makes it ready for a
// degree, `width` is the number of its moments, and `expand` turns them into the coefficients of what covectors evaluate.
template <typename T>
struct Sum {
  int64_t m, n, runs, block;
  const T *covectors, *sources, *log_weights;
  T *log_mass, *mean;
  bool* missed;
  Block* blocks;
  double *shortest, *longest;  // of each run of covectors
  double tolerance, least, most, top, total, off;
  bool equal;

  // Lengths that differ by rounding alone are one.
  void measured(double low, double high) {
    least = low, most = high;
    equal = most - least <= 4 * std::numeric_limits<T>::epsilon() * most;
  }
};

// A thread costs some microseconds to wake, and more on a busy machine.
int64_t useful(int64_t tokens, int64_t width) { return 1 + tokens * width / 500000; }

// How long covectors are.
template <typename P, typename F>
void measure(P& p, Helpers& helpers, F lengths) {
  p.runs = (p.m + RUN - 1) / RUN;
  std::vector<double> ends(2 * p.runs);
  p.shortest = ends.data(), p.longest = ends.data() + p.runs;
  helpers.share(useful(p.m, 1), p, lengths);
  const double longest = *std::max_element(p.longest, p.longest + p.runs);
  p.measured(*std::min_element(p.shortest, p.shortest + p.runs), std::min(P::LONGEST, longest));
}

// The moments of all sources relative to the largest weight: those of blocks by `work`, added up.
template <typename P, typename F>
std::vector<double> moments_of(P& p, Helpers& helpers, F work) {
  const int64_t width = p.width();
  p.block = std::max(LEAST_BLOCK, (p.n + MOST_BLOCKS - 1) / MOST_BLOCKS);
  const int64_t count = (p.n + p.block - 1) / p.block;
  std::vector<double> storage(count * width), moment(width);
  std::vector<Block> blocks(count);
  for (int64_t b = 0; b < count; ++b) blocks[b].moments = storage.data() + b * width;
  p.blocks = blocks.data();
  helpers.share(useful(p.n, width / 2), p, work);
  p.top = -std::numeric_limits<double>::infinity();
  p.off = 0;
  for (const Block& block : blocks) p.top = std::max(p.top, block.top), p.off = std::max(p.off, block.off);
  for (const Block& block : blocks)
    for (int64_t k = 0; k < width; ++k) moment[k] += std::exp(block.top - p.top) * block.moments[k];
  return moment;
}

// What covectors see of moments.
template <typename P, typename F>
void values_of(P& p, const std::vector<double>& moment, Helpers& helpers, F tiles) {
  p.total = moment[0];
  const auto coefficients = p.expand(moment);
  p.coefficients = coefficients.data();
  helpers.share(useful(p.m, p.width() / 2), p, tiles);
}

template <typename P, typename L, typename B, typename Q>
void attend(P& p, Helpers& helpers, L lengths, B blocks, Q tiles) {
  measure(p, helpers, lengths);
  p.prepare(p.needed());
  values_of(p, moments_of(p, helpers, blocks), helpers, tiles);
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

// The handlers of a series with the struct SUM: the sum, and its two halves, between which devices that each hold a share of the
// tokens add up their moments. What the second half must know of all sources beside is the largest weight and how far norms are
// from 1.
#define SERIES_HANDLERS(name, SUM)                                                                                    \
  static ffi::Error name##_attend(ffi::AnyBuffer a, ffi::AnyBuffer y, ffi::AnyBuffer w,                               \
                                  ffi::Result<ffi::AnyBuffer> log_mass, ffi::Result<ffi::AnyBuffer> mean,             \
                                  ffi::Result<ffi::AnyBuffer> missed, ffi::ThreadPool pool, double tolerance,         \
                                  int32_t threads, int32_t level) {                                                   \
    return by_type(a, [&](auto zero) {                                                                                \
      typedef decltype(zero) T;                                                                                       \
      auto sums = sums_of<SUM, T>(a, y, w, *log_mass, *mean, *missed, tolerance);                                     \
      each(sums, pool, threads, [=](auto& p, Helpers& helpers) {                                                      \
        AT_LEVEL(level, attend(p, helpers, lengths<T>, moment_blocks<T>, query_tiles<T>))                             \
      });                                                                                                             \
    });                                                                                                               \
  }                                                                                                                   \
  static ffi::Error name##_gather(ffi::AnyBuffer y, ffi::AnyBuffer w, ffi::BufferR0<ffi::S32> degree,                 \
                                  ffi::ResultBuffer<ffi::F64> moments, ffi::ResultBuffer<ffi::F64> known,             \
                                  ffi::ThreadPool pool, int32_t threads, int32_t level) {                             \
    return by_type(y, [&](auto zero) {                                                                                \
      typedef decltype(zero) T;                                                                                       \
      Helpers helpers(pool, threads);                                                                                 \
      SUM<T> p{};                                                                                                     \
      p.n = w.dimensions()[0], p.sources = y.typed_data<T>(), p.log_weights = w.typed_data<T>();                      \
      p.prepare(degree.typed_data()[0]);                                                                              \
      std::vector<double> moment;                                                                                     \
      AT_LEVEL(level, moment = moments_of(p, helpers, moment_blocks<T>))                                              \
      moment.resize(moments->dimensions()[0]);                                                                        \
      std::copy(moment.begin(), moment.end(), moments->typed_data());                                                 \
      known->typed_data()[0] = p.top, known->typed_data()[1] = p.off;                                                 \
    });                                                                                                               \
  }                                                                                                                   \
  static ffi::Error name##_see(ffi::AnyBuffer a, ffi::BufferR0<ffi::S32> degree, ffi::Buffer<ffi::F64> moments,       \
                               ffi::Buffer<ffi::F64> known, ffi::Result<ffi::AnyBuffer> log_mass,                     \
                               ffi::Result<ffi::AnyBuffer> mean, ffi::Result<ffi::AnyBuffer> missed,                  \
                               ffi::ThreadPool pool, double tolerance, int32_t threads, int32_t level) {              \
    return by_type(a, [&](auto zero) {                                                                                \
      typedef decltype(zero) T;                                                                                       \
      Helpers helpers(pool, threads);                                                                                 \
      SUM<T> p{};                                                                                                     \
      p.m = a.dimensions()[0], p.covectors = a.typed_data<T>(), p.tolerance = tolerance;                              \
      p.log_mass = log_mass->typed_data<T>(), p.mean = mean->typed_data<T>(), p.missed = missed->typed_data<bool>();  \
      p.top = known.typed_data()[0], p.off = known.typed_data()[1];                                                   \
      p.prepare(degree.typed_data()[0]);                                                                              \
      const double* first = moments.typed_data();                                                                     \
      const std::vector<double> moment(first, first + p.width());                                                     \
      AT_LEVEL(level, measure(p, helpers, lengths<T>); values_of(p, moment, helpers, query_tiles<T>))                  \
    });                                                                                                               \
  }                                                                                                                   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, name##_attend,                                                                  \
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
                                    .Attr<int32_t>("level"));                                                         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_moments, name##_gather,                                                        \
                                ffi::Ffi::Bind()                                                                      \
                                    .Arg<ffi::AnyBuffer>()                                                            \
                                    .Arg<ffi::AnyBuffer>()                                                            \
                                    .Arg<ffi::BufferR0<ffi::S32>>()                                                   \
                                    .Ret<ffi::Buffer<ffi::F64>>()                                                     \
                                    .Ret<ffi::Buffer<ffi::F64>>()                                                     \
                                    .Ctx<ffi::ThreadPool>()                                                           \
                                    .Attr<int32_t>("threads")                                                         \
                                    .Attr<int32_t>("level"));                                                         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_values, name##_see,                                                            \
                                ffi::Ffi::Bind()                                                                      \
                                    .Arg<ffi::AnyBuffer>()                                                            \
                                    .Arg<ffi::BufferR0<ffi::S32>>()                                                   \
                                    .Arg<ffi::Buffer<ffi::F64>>()                                                     \
                                    .Arg<ffi::Buffer<ffi::F64>>()                                                     \
                                    .Ret<ffi::AnyBuffer>()                                                            \
                                    .Ret<ffi::AnyBuffer>()                                                            \
                                    .Ret<ffi::AnyBuffer>()                                                            \
                                    .Ctx<ffi::ThreadPool>()                                                           \
                                    .Attr<double>("tolerance")                                                        \
                                    .Attr<int32_t>("threads")                                                         \
                                    .Attr<int32_t>("level"));

}  // namespace
