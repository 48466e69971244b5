#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

namespace driftbound::composites {
namespace {

constexpr std::int64_t most_products = std::int64_t{1} << 28;

/// Where places lie along one axis of `extent` pixels, in pixels: [N, 1, P].
class PlacesAlong {
public:
  PlacesAlong(Body& body, const op::GridSample& sample, std::int64_t extent)
      : body_(body), sample_(sample), extent_(extent) {}

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

  /// Weights of the pixels at places: [N, extent, P].
  ValueId weights(ValueId pixels) const {
    Tensor<double> numbers({extent_, 1});
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers.values[i] = static_cast<double>(i);
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
  /// Places outside as they are, at the border, or reflected there.
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
    return body_.apply(op::Clip{0.0, last}, {body_.add(folded, body_.number(low))});
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
  const std::int64_t extent_;
};

}  // namespace

/// sum_i sum_j x_ij w_i(row) w_j(column): a pixel that a place does not read has the weight 0.
ValueId write(Body& body, const op::GridSample& sample) {
  const ValueId x = body.input(0), places = body.input(1);
  const Shape pixels = body.shape(x), grid = body.shape(places);
  if (pixels.size() != 4 || grid.size() != 4 || grid[0] != pixels[0] || grid[3] != 2)
    throw ShapeMismatch("pixels " + to_string(pixels) + " at places " + to_string(grid) +
                        "; expected [N, C, H, W] and [N, H', W', 2]");
  if (sample.mode == op::GridSample::Mode::cubic && sample.outside != op::GridSample::Outside::zero)
    throw ShapeMismatch("cubic interpolation with pixels other than 0 outside");
  const std::int64_t samples = pixels[0], channels = pixels[1], rows = pixels[2], columns = pixels[3];
  const std::int64_t count = grid[1] * grid[2];
  if (static_cast<double>(channels * rows) * static_cast<double>(count) > static_cast<double>(most_products))
    throw ShapeMismatch("pixels " + to_string(pixels) + " at " + std::to_string(count) +
                        " places are more than this version reads");
  const PlacesAlong across(body, sample, columns), down(body, sample, rows);
  const ValueId of_columns = across.weights(across.pixels(places, 0)), of_rows = down.weights(down.pixels(places, 1));
  const ValueId lines = body.reshape(x, {samples, channels * rows, columns});
  const ValueId read = body.reshape(body.apply(op::MatMul{}, {lines, of_columns}), {samples, channels, rows, count});
  const ValueId weighted = body.multiply(read, body.reshape(of_rows, {samples, 1, rows, count}));
  const ValueId sums = body.apply(op::ReduceSum{{2}, false}, {weighted});
  return body.reshape(sums, {samples, channels, grid[1], grid[2]});
}

}  // namespace driftbound::composites
