#include <algorithm>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

namespace driftbound::composites {
namespace {

constexpr std::int64_t most_products = std::int64_t{1} << 28;

/// Where places lie along one axis of `extent` pixels, in pixels: [N, 1, P].
class PlacesAlong {
public:
  PlacesAlong(Body& body, const op::GridSample& sample, std::int64_t extent)
      : body_(body), sample_(sample), extent_(extent), margin_(margin_of(sample)) {}

  /// The pixels that a place inside reads, in order: those of the axis and, where cubic weights read copies of pixels
  /// outside, two more on either side.
  std::vector<std::int64_t> pixels_read() const {
    std::vector<std::int64_t> read;
    for (std::int64_t i = -margin_; i < extent_ + margin_; ++i) read.push_back(inside(i));
    return read;
  }

  /// `coordinate`: 0 the column, 1 the row.
  ValueId pixels(ValueId places, std::int64_t coordinate) const {
    const Shape shape = body_.shape(places);
    const ValueId chosen = body_.apply(op::Slice{{coordinate}, {coordinate + 1}, {3}, {}}, {places});
    const ValueId from_one = body_.add(body_.reshape(chosen, {shape[0], 1, shape[1] * shape[2]}), body_.number(1.0));
    const ValueId two = body_.number(2.0);
    const auto size = static_cast<double>(extent_);
    if (sample_.align_corners) return within(body_.multiply(body_.divide(from_one, two), body_.number(size - 1.0)));
    const ValueId scaled = body_.multiply(from_one, body_.number(size));
    return within(body_.divide(body_.subtract(scaled, body_.number(1.0)), two));
  }

  /// Weights of the pixels read at places: [N, pixels read, P].
  ValueId weights(ValueId pixels) const {
    Tensor<double> numbers({extent_ + 2 * margin_, 1});
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers.values[i] = static_cast<double>(static_cast<std::int64_t>(i) - margin_);
    const ValueId middles = body_.constant(std::move(numbers)), one = body_.number(1.0);
    if (sample_.mode == op::GridSample::Mode::nearest) {
      const ValueId is_nearest = body_.apply(op::Equal{}, {body_.apply(op::Round{}, {pixels}), middles});
      return body_.apply(op::Choice{}, {is_nearest, one, body_.number(0.0)});
    }
    const ValueId distance = body_.apply(op::Abs{}, {body_.subtract(pixels, middles)});
    if (sample_.mode == op::GridSample::Mode::linear) return body_.apply(op::Relu{}, {body_.subtract(one, distance)});
    return cubic(distance);
  }

private:
  static std::int64_t margin_of(const op::GridSample& sample) {
    const bool copies = sample.mode == op::GridSample::Mode::cubic && sample.outside != op::GridSample::Outside::zero;
    return copies ? 2 : 0;
  }

  /// The pixel of the axis that stands for pixel i outside.
  std::int64_t inside(std::int64_t i) const {
    const std::int64_t last = extent_ - 1;
    if (sample_.outside != op::GridSample::Outside::reflected) return std::clamp<std::int64_t>(i, 0, last);
    const std::int64_t period = sample_.align_corners ? std::max<std::int64_t>(2 * last, 1) : 2 * extent_;
    const std::int64_t turned = ((i % period) + period) % period;
    return turned <= last ? turned : (sample_.align_corners ? period : period - 1) - turned;
  }

  /// Places outside as they are, at the border, or reflected there: for cubic weights within half a pixel of the last one,
  /// as they read on both sides.
  ValueId within(ValueId pixels) const {
    const double last = static_cast<double>(extent_) - 1.0;
    if (sample_.outside == op::GridSample::Outside::zero) return pixels;
    if (sample_.outside == op::GridSample::Outside::border) return body_.apply(op::Clip{0.0, last}, {pixels});
    const double low = sample_.align_corners ? 0.0 : -0.5, length = sample_.align_corners ? last : last + 1.0;
    if (length == 0.0) return body_.multiply(pixels, body_.number(0.0));
    // The distance from the nearest even multiple of the length: from that of 16 lengths, which places rarely leave, and
    // folded at 8, 4, 2 and 1.
    const ValueId x = body_.subtract(pixels, body_.number(low)), period = body_.number(32.0 * length);
    const ValueId turns = body_.apply(op::Round{}, {body_.divide(x, period)});
    ValueId folded = body_.apply(op::Abs{}, {body_.subtract(x, body_.multiply(turns, period))});
    for (const double lengths : {8.0, 4.0, 2.0, 1.0}) {
      const ValueId fold = body_.number(lengths * length);
      folded = body_.subtract(fold, body_.apply(op::Abs{}, {body_.subtract(fold, folded)}));
    }
    const ValueId reflected = body_.add(folded, body_.number(low));
    return margin_ == 0 ? body_.apply(op::Clip{0.0, last}, {reflected}) : reflected;
  }

  /// Keys' kernel with a = -3/4: ((a + 2) d - (a + 3)) d^2 + 1 up to 1, a (((d - 5) d + 8) d - 4) up to 2, 0 behind.
  ValueId cubic(ValueId distance) const {
    constexpr double a = -0.75;
    const ValueId near = body_.apply(op::Clip{0.0, 1.0}, {distance}), far = body_.apply(op::Clip{1.0, 2.0}, {distance});
    const auto number = [&](double x) { return body_.number(x); };
    const ValueId line = body_.subtract(body_.multiply(number(a + 2.0), near), number(a + 3.0));
    const ValueId of_near = body_.add(body_.multiply(body_.multiply(line, near), near), number(1.0));
    const ValueId square = body_.add(body_.multiply(body_.subtract(far, number(5.0)), far), number(8.0));
    const ValueId of_far = body_.multiply(number(a), body_.subtract(body_.multiply(square, far), number(4.0)));
    return body_.add(of_near, of_far);
  }

  Body& body_;
  const op::GridSample& sample_;
  const std::int64_t extent_, margin_;
};

/// ONNX moves a place outside to the middle of the last pixel, by up to half a pixel: a jump where weights are cubic.
bool jumps(const op::GridSample& sample) {
  return sample.mode == op::GridSample::Mode::cubic && sample.outside == op::GridSample::Outside::border &&
         !sample.align_corners;
}

}  // namespace

/// sum_i sum_j x_ij w_i(row) w_j(column): a pixel that a place does not read has the weight 0.
ValueId write(Body& body, const op::GridSample& sample) {
  const ValueId x = body.input(0), places = body.input(1);
  const Shape pixels = body.shape(x), grid = body.shape(places);
  if (pixels.size() != 4 || grid.size() != 4 || grid[0] != pixels[0] || grid[3] != 2)
    throw ShapeMismatch("pixels " + to_string(pixels) + " at places " + to_string(grid) +
                        "; expected [N, C, H, W] and [N, H', W', 2]");
  if (jumps(sample))
    throw ShapeMismatch("cubic interpolation with places outside at a border that is no pixel's middle");
  const PlacesAlong across(body, sample, pixels[3]), down(body, sample, pixels[2]);
  const std::vector<std::int64_t> columns_read = across.pixels_read(), rows_read = down.pixels_read();
  const auto columns = static_cast<std::int64_t>(columns_read.size()),
             rows = static_cast<std::int64_t>(rows_read.size());
  const std::int64_t samples = pixels[0], channels = pixels[1];
  const std::int64_t count = grid[1] * grid[2];
  if (static_cast<double>(channels * rows) * static_cast<double>(count) > static_cast<double>(most_products))
    throw ShapeMismatch("pixels " + to_string(pixels) + " at " + std::to_string(count) +
                        " places are more than this version reads");
  ValueId read_pixels = x;
  if (columns != pixels[3] || rows != pixels[2])
    read_pixels =
        body.apply(op::Gather{3, {columns}, columns_read}, {body.apply(op::Gather{2, {rows}, rows_read}, {x})});
  const ValueId of_columns = across.weights(across.pixels(places, 0)), of_rows = down.weights(down.pixels(places, 1));
  const ValueId lines = body.reshape(read_pixels, {samples, channels * rows, columns});
  const ValueId read = body.reshape(body.apply(op::MatMul{}, {lines, of_columns}), {samples, channels, rows, count});
  const ValueId weighted = body.multiply(read, body.reshape(of_rows, {samples, 1, rows, count}));
  const ValueId sums = body.apply(op::ReduceSum{{2}, false}, {weighted});
  return body.reshape(sums, {samples, channels, grid[1], grid[2]});
}

}  // namespace driftbound::composites
