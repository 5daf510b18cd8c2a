// The pulse of a computation that runs: how far it is, for whoever asks from outside, and whether it should stop.
//
// A compiled loop calls `measureflow_pulse` once a step. It writes where it is into its place in a table and reads whether it was
// asked to stop; both cost nothing beside a step. Places are given out by Python.

#include <atomic>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int PLACES = 256;

struct Place {
  std::atomic<float> time{0};
  std::atomic<int32_t> steps{0};
  std::atomic<int32_t> stop{0};
};

Place table[PLACES];

ffi::Error pulse(ffi::Buffer<ffi::F32> time, ffi::Buffer<ffi::S32> steps, ffi::Buffer<ffi::S32> place,
                 ffi::ResultBuffer<ffi::S32> stop) {
  Place& mine = table[place.typed_data()[0] % PLACES];
  mine.time.store(time.typed_data()[0], std::memory_order_relaxed);
  mine.steps.store(steps.typed_data()[0], std::memory_order_relaxed);
  stop->typed_data()[0] = mine.stop.load(std::memory_order_relaxed);
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(measureflow_pulse, pulse,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

extern "C" {

void measureflow_pulse_reset(int place) {
  table[place % PLACES].steps = 0;
  table[place % PLACES].stop = 0;
}

void measureflow_pulse_stop(int place) { table[place % PLACES].stop = 1; }

double measureflow_pulse_time(int place) { return table[place % PLACES].time; }

int measureflow_pulse_steps(int place) { return table[place % PLACES].steps; }
}
