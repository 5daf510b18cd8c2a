// Log mass and tilted mean of weighted sources on the unit sphere through their spherical harmonics, on the CPU.
//
//   e^{r cos} = sum_l (2l + 1) i_l(r) P_l(cos),  and P_l(<x, y>) is a sum of products of harmonics of x and y,
//
// so sources enter by their moments alone. All arithmetic is in double precision, whatever the arrays hold. A covector whose
// mass is so small that the error bound of the series exceeds its tolerance is marked as missed.

#include "fast.h"

namespace {

// Degrees and orders in the order of the moments, with the factors of the recurrence that leads from (l, m) to (l + 1, m).
struct Table {
  int degree, size;
  std::vector<double> recurrence;

  explicit Table(int degree) : degree(degree), size((degree + 1) * (degree + 2) / 2) {
    for (int m = 0; m <= degree; ++m)
      for (int l = m; l <= degree; ++l) recurrence.push_back(down(l, m));
  }
  // z q_l = q_{l+1} + down q_{l-1}
  static double down(int l, int m) { return double(l * l - m * m) / ((2.0 * l + 1) * (2.0 * l - 1)); }
  int at(int l, int m) const { return m * (degree + 1) - m * (m - 1) / 2 + l - m; }
};

// i_l(r) / i_{l-1}(r), from its bounds, good to some percent; the error dies out on the way down.
double first_ratio(int l, double r) { return r / (l + std::sqrt((l + 1.0) * (l + 1.0) + r * r)); }

// e^{-r} i_l(r) for l = 0 .. top, by ratios from above; with factors 2l + 1 they add up to one.
std::vector<double> bessel(double r, int top) {
  std::vector<double> value(top + 1);
  double ratio = first_ratio(top + 1, r), total = 0;
  for (int l = top; l > 0; --l) {
    ratio = r / (2.0 * l + 1 + r * ratio);
    value[l] = ratio;
    total = ratio * (2.0 * l + 1 + total);
  }
  value[0] = 1 / (1 + total);
  for (int l = 1; l <= top; ++l) value[l] *= value[l - 1];
  return value;
}

// The degree needed for covectors up to length r: what is left out is at most `tail` of the total.
int degree_needed(double r, double tail) {
  const auto value = bessel(r, 40 + static_cast<int>(9 * std::sqrt(r)));
  int l = static_cast<int>(value.size()) - 1;
  for (double left = 0; l > 0; --l)
    if ((left += (2 * l + 1) * value[l]) > tail) break;
  return l;
}

typedef std::complex<double> C;

// Coefficients of the mass and the three moments: harmonics times coordinates are harmonics of the neighbouring degrees.
std::vector<double> coefficients(const Table& t, const std::vector<double>& moment, const std::vector<double>& bessel) {
  const auto A = [&](int l, int m) -> C {
    if (m > l || l < 0) return 0;
    return {moment[2 * t.at(l, m)], moment[2 * t.at(l, m) + 1]};
  };
  std::vector<double> out;
  for (int m = 0; m < t.degree; ++m) {
    double square = 1;  // of the factor between q and the normalised function, which starts as prod (2k - 1) / 2k
    for (int k = 1; k <= m; ++k) square *= (2.0 * k - 1) / (2.0 * k);
    for (int l = m; l < t.degree; ++l) {
      if (l > m) square *= (2.0 * l - 1) * (2.0 * l - 1) / double(l * l - m * m);
      const double n = l - m, up = m + 0.5, low = m - 0.5;
      const C plus = A(l + 1, m + 1) - n * (n - 1) / (4 * (up + n - 1) * (up + n)) * A(l - 1, m + 1);
      const C minus = m == 0 ? std::conj(plus)
                             : (2 * low + n) * (2 * low + n + 1) / (4 * (low + n) * (low + n + 1)) * A(l - 1, m - 1) -
                                   A(l + 1, m - 1);
      const C z = A(l + 1, m) + Table::down(l, m) * A(l - 1, m);
      const double factor = (2 * l + 1) * (m ? 2 : 1) * square * bessel[l];
      for (C c : {A(l, m), 0.5 * (plus + minus), C(0, -0.5) * (plus - minus), z})
        out.insert(out.end(), {factor * c.real(), -factor * c.imag()});
    }
  }
  return out;
}

template <typename T>
struct Ball : Sum<T> {
  static constexpr double LONGEST = SPHERE_LONGEST;
  Table table{0};
  double truncation;
  const double* coefficients;

  int needed() const { return degree_needed(this->most, left_out()); }
  int64_t width() const { return 2 * table.size; }
  double left_out() const { return std::max(EPS, SPHERE_PART * this->tolerance); }
  // Products of harmonics with coordinates have one degree more.
  void prepare(int degree) { truncation = left_out(), table = Table(degree + 1); }
  std::vector<double> expand(const std::vector<double>& moment) const {
    const int degree = table.degree - 1;
    const auto scale = this->equal ? bessel(this->most, degree) : std::vector<double>(degree + 1, 1.0);
    return ::coefficients(table, moment, scale);
  }
};

#define KERNEL "sphere.inc"
#include "levels.inc"

}  // namespace

SERIES_HANDLERS(measureflow_sphere, Ball)
