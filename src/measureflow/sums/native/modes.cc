// Log mass and tilted mean of weighted sources on the unit circle through their Fourier modes, on the CPU.
//
//   e^{r cos(s - t)} = sum_k I_k(r) e^{ik(s - t)},  so sources enter by their moments and covectors by a polynomial.
//
// All arithmetic is in double precision, whatever the arrays hold. A covector whose mass is so small that the error bound of
// the series exceeds its tolerance is marked as missed.

#include "fast.h"

namespace {

constexpr int REACH = 4;

// I_k(r) / I_{k-1}(r), from its bounds, good to some percent; the error dies out on the way down.
double first_ratio(int k, double r) { return r / (k - 0.5 + std::sqrt((k + 0.5) * (k + 0.5) + r * r)); }

// e^{-r} I_k(r) for k = 0 .. top, by ratios from above; they add up to one.
std::vector<double> bessel(double r, int top) {
  std::vector<double> value(top + 1);
  double ratio = first_ratio(top + 1, r), total = 0;
  for (int k = top; k > 0; --k) {
    ratio = r / (2.0 * k + r * ratio);
    value[k] = ratio;
    total = ratio * (1 + total);
  }
  value[0] = 1 / (1 + 2 * total);
  for (int k = 1; k <= top; ++k) value[k] *= value[k - 1];
  return value;
}

// The modes needed for covectors up to length r: what is left out is at most `tail` of the total.
int modes_needed(double r, double tail) {
  const auto value = bessel(r, 40 + static_cast<int>(9 * std::sqrt(r)));  // beyond, e^{-k^2/2r} is below 1e-17
  int k = static_cast<int>(value.size()) - 1;
  for (double left = 0; k > 0; --k)
    if ((left += 2 * value[k]) > tail) break;
  return k;
}

// With c the conjugate direction and m_k the moments, m_{-k} their conjugates, the mass is Re sum_k e_k I_k m_k c^k and the
// first moment sum_{k >= 0} I_k m_{k+1} c^k plus the conjugate of sum_{k > 0} I_k m_{k-1} c^k; e_0 = 1 and e_k = 2.
typedef std::complex<double> C;

C at(const std::vector<double>& moment, int k) { return {moment[2 * k], moment[2 * k + 1]}; }

// Without the Bessel numbers: for each mode the coefficients of the three polynomials.
std::vector<double> polynomials(const std::vector<double>& moment, int top_mode) {
  std::vector<double> out;
  for (int k = 0; k <= top_mode; ++k)
    for (C c : {at(moment, k) * (k ? 2.0 : 1.0), at(moment, k + 1), k ? at(moment, k - 1) : C(0)})
      out.insert(out.end(), {c.real(), c.imag()});
  return out;
}

// With them: mass and both coordinates as Re sum_k f_k c^k, by groups of modes: for modes g + b and g - b the four factors of
// cosines and sines.
std::vector<double> trigonometric(const std::vector<double>& moment, const std::vector<double>& bessel) {
  const int top_mode = static_cast<int>(bessel.size()) - 1, width = 2 * REACH + 1;
  const auto f = [&](int i, int k) -> C {
    if (k < 0 || k > top_mode) return 0;
    const C up = at(moment, k + 1), down = k ? at(moment, k - 1) : C(0);
    return bessel[k] * (i == 0 ? at(moment, k) * (k ? 2.0 : 1.0) : i == 1 ? up + down : C(0, -1) * (up - down));
  };
  std::vector<double> out;
  for (int g = 0; g - REACH <= top_mode; g += width)
    for (int i = 0; i < 3; ++i) {
      const C centre = f(i, g);
      out.insert(out.end(), {centre.real(), centre.imag()});
      for (int b = 1; b <= REACH; ++b) {
        const C sum = f(i, g + b) + f(i, g - b), difference = f(i, g + b) - f(i, g - b);
        out.insert(out.end(), {sum.real(), -difference.imag(), sum.imag(), difference.real()});
      }
    }
  return out;
}

struct Series {
  int top_mode, groups;
  const double* coefficients;
};

template <typename T>
struct Circle : Sum<T>, Series {
  static constexpr double LONGEST = CIRCLE_LONGEST;
  int modes;
  double truncation;

  int needed() const { return modes_needed(this->most, left_out()); }
  int64_t width() const { return 2 * modes; }
  double left_out() const { return std::max(EPS, CIRCLE_PART * this->tolerance); }
  void prepare(int degree) {
    truncation = left_out(), top_mode = degree, modes = degree + 2, groups = (degree + REACH) / (2 * REACH + 1) + 1;
  }
  std::vector<double> expand(const std::vector<double>& moment) const {
    return this->equal ? trigonometric(moment, bessel(this->most, top_mode)) : polynomials(moment, top_mode);
  }
};

#define KERNEL "modes.inc"
#include "levels.inc"

}  // namespace

SERIES_HANDLERS(measureflow_modes, Circle)
