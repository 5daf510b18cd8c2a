// Many causal attention heads on the same sequences, on the CPU: the sum of what they compute, and the gradient of its pairing
// with given cotangents in the parameters of every head.
//
// A head is (W_Q, W_K, W_V, W_O), one after the other in a row of `theta`, and computes softmax(x W_Q (x W_K)^T / sqrt(k)) x W_V W_O
// with a causal mask.

#include "kernels.h"
#include "powers.h"

namespace {

constexpr int64_t LEAST_BLOCK = 64, MOST_TASKS = 64, GROUP = 8, LEAST_WORK = 1 << 18;

template <typename T>
struct Heads {
  int64_t n, sequences, length, d, k, v, block, blocks;
  const T *theta, *weights, *tokens, *cotangents;
  T *out, *partial;

  int64_t key() const { return d * k; }
  int64_t value() const { return 2 * d * k; }
  int64_t output() const { return 2 * d * k + d * v; }
  int64_t size() const { return 2 * d * (k + v); }
  // Threads that are worth starting.
  int64_t useful() const { return 1 + n * sequences * length * (size() + length * (k + v)) / LEAST_WORK; }
};

template <typename T>
Heads<T> heads_of(ffi::AnyBuffer theta, ffi::AnyBuffer tokens, int32_t key_dim, int32_t value_dim) {
  Heads<T> p{};
  p.n = theta.dimensions()[0], p.k = key_dim, p.v = value_dim;
  p.sequences = tokens.dimensions()[0], p.length = tokens.dimensions()[1], p.d = tokens.dimensions()[2];
  p.theta = theta.typed_data<T>(), p.tokens = tokens.typed_data<T>();
  return p;
}

#define KERNEL "heads.inc"
#include "levels.inc"

template <typename T>
void run_sum(Heads<T> p, Helpers helpers, int level) {
  // Enough tasks for many threads, and no more: each holds a sum.
  const int64_t most = std::max<int64_t>(1, MOST_TASKS * GROUP / std::max(GROUP, p.sequences));
  p.block = (p.n + most * LEAST_BLOCK - 1) / (most * LEAST_BLOCK) * LEAST_BLOCK;
  p.blocks = (p.n + p.block - 1) / p.block;
  const int64_t size = p.sequences * p.length * p.d;
  std::vector<T> partial(p.blocks * size);
  p.partial = partial.data();
  AT_LEVEL(level, helpers.share(p.useful(), p, sum_blocks<T>))
  std::fill(p.out, p.out + size, T(0));
  for (int64_t b = 0; b < p.blocks; ++b)
    for (int64_t i = 0; i < size; ++i) p.out[i] += partial[b * size + i];
}

template <typename T>
void run_gradient(Heads<T> p, Helpers helpers, int level) {
  AT_LEVEL(level, helpers.share(p.useful(), p, gradient_tiles<T>))
}

ffi::Error sum(ffi::AnyBuffer theta, ffi::AnyBuffer weights, ffi::AnyBuffer tokens, ffi::Result<ffi::AnyBuffer> out,
               ffi::ThreadPool pool, int32_t key_dim, int32_t value_dim, int32_t threads, int32_t level) {
  return by_type(theta, [&](auto zero) {
    typedef decltype(zero) T;
    auto p = heads_of<T>(theta, tokens, key_dim, value_dim);
    p.weights = weights.typed_data<T>(), p.out = out->typed_data<T>();
    run_sum<T>(p, {pool, threads}, level);
  });
}

ffi::Error gradient(ffi::AnyBuffer theta, ffi::AnyBuffer tokens, ffi::AnyBuffer cotangents, ffi::Result<ffi::AnyBuffer> out,
                    ffi::ThreadPool pool, int32_t key_dim, int32_t value_dim, int32_t threads, int32_t level) {
  return by_type(theta, [&](auto zero) {
    typedef decltype(zero) T;
    auto p = heads_of<T>(theta, tokens, key_dim, value_dim);
    p.cotangents = cotangents.typed_data<T>(), p.out = out->typed_data<T>();
    run_gradient<T>(p, {pool, threads}, level);
  });
}

}  // namespace

#define HEADS_HANDLER(name, function)                   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function,         \
                                ffi::Ffi::Bind()        \
                                    .Arg<ffi::AnyBuffer>() \
                                    .Arg<ffi::AnyBuffer>() \
                                    .Arg<ffi::AnyBuffer>() \
                                    .Ret<ffi::AnyBuffer>() \
                                    .Ctx<ffi::ThreadPool>() \
                                    .Attr<int32_t>("key_dim") \
                                    .Attr<int32_t>("value_dim") \
                                    .Attr<int32_t>("threads") \
                                    .Attr<int32_t>("level"));

HEADS_HANDLER(measureflow_heads, sum)
HEADS_HANDLER(measureflow_heads_gradient, gradient)
