#include "reference/pair_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/pair_kernels.hpp"

namespace driftbound {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Copies exact numbers to places [first, first + count); what is none becomes the whole line.
void assign(PairTensor& tensor, std::size_t part, std::size_t first, const double* values, std::size_t count) {
  std::copy_n(values, count, tensor.hi.data() + first);
  std::fill_n(tensor.lo.data() + first, count, 0.0);
  std::fill_n(tensor.radius.data() + first, count, 0.0);
  for (std::size_t i = first; i < first + count; ++i) {
    if (std::isfinite(tensor.hi[i])) continue;
    tensor.hi[i] = 0.0;
    tensor.radius[i] = tensor.norms[part] = infinity;
  }
}

}  // namespace

Shape with_rows(Shape shape, std::size_t rows) {
  shape.at(0) = static_cast<std::int64_t>(rows);
  return shape;
}

PairTensor::PairTensor(Shape s, std::size_t parts)
    : shape(std::move(s)),
      hi(static_cast<std::size_t>(element_count(shape))),
      lo(hi.size()),
      radius(hi.size()),
      norms(parts) {}

PairTensor::PairTensor(const Tensor<double>& values) : PairTensor(values.shape, 1) {
  assign(*this, 0, 0, values.values.data(), size());
}

PairTensor::PairTensor(const Tensor<double>& values, std::span<const std::size_t> rows)
    : PairTensor(with_rows(values.shape, rows.size()), rows.size()) {
  const std::size_t width = part_size();
  for (std::size_t r = 0; r < rows.size(); ++r)
    assign(*this, r, r * width, values.values.data() + rows[r] * width, width);
}

PairTensor::PairTensor(const Tensor<Ball>& balls, std::span<const std::size_t> rows)
    : PairTensor(with_rows(balls.shape, rows.size()), rows.size()) {
  const std::size_t width = part_size();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Ball* const from = balls.values.data() + rows[r] * width;
    for (std::size_t i = 0; i < width; ++i) {
      const bool is_known = std::isfinite(from[i].radius.value());
      hi[r * width + i] = is_known ? from[i].hi : 0.0;
      lo[r * width + i] = is_known ? from[i].lo : 0.0;
      radius[r * width + i] = from[i].radius.value();
    }
  }
  settle();
}

PairTensor::PairTensor(const BallTensor& balls, std::size_t parts) : PairTensor(balls.shape(), parts) {
  BallTensor scratch({2}, balls.bits() + 64);
  for (std::size_t i = 0; i < size(); ++i) {
    const Ball ball = to_ball(balls[i], scratch);
    const bool finite = ball.is_finite();
    hi[i] = finite ? ball.hi : 0.0;
    lo[i] = finite ? ball.lo : 0.0;
    radius[i] = finite ? ball.radius.value() : infinity;
  }
  settle();
}

bool PairTensor::is_exact() const {
  return std::all_of(norms.begin(), norms.end(), [](double norm) { return norm == 0.0; });
}

BallTensor PairTensor::balls(int bits) const {
  BallTensor result(shape, bits);
  for (std::size_t i = 0; i < size(); ++i) {
    MpBall& ball = result[i];
    if (std::isinf(radius[i])) {
      make_void(ball);
      continue;
    }
    mpfr_set_d(ball.mid(), hi[i], MPFR_RNDN);
    driftbound::settle(ball, mpfr_add_d(ball.mid(), ball.mid(), lo[i], MPFR_RNDN), Scaled::of(radius[i]));
  }
  return result;
}

void PairTensor::settle(std::size_t part, double norm) {
  const PairKernels& kernels = fastest_pair_kernels();
  double* const radii = radius.data() + part * part_size();
  const double by_radii = kernels.norm(radii, part_size());
  norms[part] = std::isfinite(by_radii) ? std::min(norm, by_radii) : infinity;
  kernels.cap(radii, norms[part], part_size());
}

void PairTensor::settle() {
  for (std::size_t part = 0; part < parts(); ++part) settle(part, infinity);
}

}  // namespace driftbound
