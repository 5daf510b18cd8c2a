// What all kernels share: instruction sets, threads, types and batches.

#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "constants.h"  // made from constants.py by the build
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

#define INLINE __attribute__((always_inline)) inline

extern "C" int measureflow_level();  // the best instruction set of this machine, in attend.cc

// Runs a statement in the namespace of the instruction set asked for, or of the best one; levels.inc makes the namespaces.
enum Level { BASELINE = 0, AVX2 = 1, AVX512 = 2 };
#define IN_LEVEL(name, statement) \
  {                               \
    using namespace name;         \
    statement;                    \
    break;                        \
  }
#if defined(__x86_64__)
#define AT_LEVEL(level, statement)                                                         \
  switch (level < 0 ? measureflow_level() : std::min<int>(level, measureflow_level())) { \
    case AVX512:                                                                           \
      IN_LEVEL(avx512, statement)                                                          \
    case AVX2:                                                                             \
      IN_LEVEL(avx2, statement)                                                            \
    default:                                                                               \
      IN_LEVEL(baseline, statement)                                                        \
  }
#else
#define AT_LEVEL(level, statement) \
  switch (level) {                 \
    default:                       \
      IN_LEVEL(baseline, statement) \
  }
#endif

namespace {

// Threads that help with a sum: those of XLA's pool, which are there already. `threads` 0 asks for all of them.
struct Helpers {
  Helpers(ffi::ThreadPool pool, int threads) : pool(pool), most(threads > 0 ? threads : pool.num_threads()) {}

  // Work takes its tasks from a common counter until there are none. A helper that comes late, because the machine is busy, finds
  // the work closed; nobody waits for it.
  template <typename P, typename F>
  void share(int64_t useful, P& p, F work) {
    struct State {
      std::atomic<int64_t> next{0}, busy{0};
      std::atomic<bool> closed{false};
    };
    const auto state = std::make_shared<State>();
    for (int64_t i = 1; i < std::min(useful, most); ++i)
      pool.Schedule([state, work, &p] {
        ++state->busy;
        if (!state->closed) work(p, state->next);
        --state->busy;
      });
    work(p, state->next);
    state->closed = true;
    while (state->busy > 0) std::this_thread::yield();
  }

  ffi::ThreadPool pool;
  const int64_t most;
};

// Calls a generic function with a zero of the type of an array.
template <typename F>
ffi::Error by_type(ffi::AnyBuffer x, F f) {
  switch (x.element_type()) {
    case ffi::F32:
      f(0.0f);
      return ffi::Error::Success();
    case ffi::F64:
      f(0.0);
      return ffi::Error::Success();
    default:
      return ffi::Error::InvalidArgument("the kernels of measureflow take float32 or float64");
  }
}

// Where each member of a batch begins in an array whose last `rank` dimensions are those of a member. The leading ones are the
// batch, or 1 where members share the array.
template <typename T>
std::vector<T*> members(ffi::AnyBuffer x, size_t rank, ffi::AnyBuffer::Dimensions batch) {
  const auto dims = x.dimensions();
  const size_t leading = dims.size() - rank;
  std::vector<int64_t> at{0};
  for (size_t k = 0; k < leading; ++k) {
    std::vector<int64_t> finer;
    for (int64_t i : at)
      for (int64_t j = 0; j < batch[k]; ++j) finer.push_back(i * dims[k] + (dims[k] > 1 ? j : 0));
    at.swap(finer);
  }
  int64_t size = 1;
  for (size_t k = leading; k < dims.size(); ++k) size *= dims[k];
  std::vector<T*> begins;
  for (int64_t i : at) begins.push_back(x.typed_data<T>() + i * size);
  return begins;
}

}  // namespace
