#ifdef DRIFTBOUND_WITH_EIGEN
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "driftbound/adapters/eigen.hpp"
#include "implicit/implicit_networks.hpp"

using namespace driftbound;
using implicit_networks::octahedron;

namespace {

using Numbers = Eigen::Matrix<std::int8_t, Eigen::Dynamic, 1>;

/// Points with coordinates that are floats.
Eigen::MatrixXd some_points() {
  Eigen::MatrixXd points(40, 3);
  for (int row = 0; row < 40; ++row)
    for (int c = 0; c < 3; ++c) points(row, c) = ((row * (7 + 4 * c) + c * 5) % 17 - 8) / 16.0;
  return points;
}

Numbers signs_one_by_one(const SignField& field, const Eigen::MatrixXd& points) {
  Numbers numbers(points.rows());
  for (Eigen::Index row = 0; row < points.rows(); ++row) {
    const std::vector<double> point = {points(row, 0), points(row, 1), points(row, 2)};
    numbers[row] = static_cast<std::int8_t>(field.at(point).sign);
  }
  return numbers;
}

}  // namespace

TEST_CASE("batches of Eigen have the signs of their rows, however they are stored") {
  const SignField field(octahedron());
  const Eigen::MatrixXd points = some_points();
  const Numbers expected = signs_one_by_one(field, points);
  REQUIRE((expected.array() == 1).any());
  REQUIRE((expected.array() == 0).any());
  REQUIRE((expected.array() == -1).any());
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const RowMajor by_rows = points;
  const Eigen::Matrix<float, Eigen::Dynamic, 3> floats = points.cast<float>();
  const Eigen::Matrix<float, Eigen::Dynamic, 3, Eigen::RowMajor> float_rows = points.cast<float>();
  const Eigen::MatrixXd across = points.transpose();
  CHECK(eigen::signs(field, points) == expected);
  CHECK(eigen::signs(field, by_rows) == expected);
  CHECK(eigen::signs(field, floats) == expected);
  CHECK(eigen::signs(field, float_rows) == expected);
  CHECK(eigen::signs(field, across.transpose()) == expected);
  CHECK(eigen::signs(field, -points) == expected);  // an expression; f is even
  CHECK(eigen::signs(field, points.colwise().reverse()) == expected.reverse());

  Eigen::MatrixXd wide = Eigen::MatrixXd::Constant(50, 8, 9.0);
  wide.block(5, 2, 40, 3) = points;
  CHECK(eigen::signs(field, wide.block(5, 2, 40, 3)) == expected);
  std::vector<double> memory(40 * 7, 9.0);  // rows 7 apart, coordinates 2 apart
  for (int row = 0; row < 40; ++row)
    for (int c = 0; c < 3; ++c) memory[static_cast<std::size_t>(row * 7 + c * 2)] = points(row, c);
  const Eigen::Map<const RowMajor, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> map(
      memory.data(), 40, 3, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(7, 2));
  CHECK(eigen::signs(field, map) == expected);
  CHECK(eigen::signs(field, points.topRows(0)).size() == 0);
}

TEST_CASE("batches of Eigen with a tree have the same signs, and certain cells are not evaluated") {
  const SignField field(octahedron());
  OctreeOptions options;
  options.depth = 5;
  const Octree tree = Octree::build(octahedron(), options);
  const Eigen::MatrixXd points = some_points();
  CHECK(eigen::signs(field, points, &tree) == eigen::signs(field, points));
  const Eigen::MatrixXf floats = points.cast<float>();
  CHECK(eigen::signs(field, floats, &tree) == eigen::signs(field, points));
  std::vector<PointSign> found(40);
  const SignStatistics counts = eigen::signs(field, points, found, &tree);
  CHECK(counts.stages[static_cast<std::size_t>(SignStage::given)].decided > 20);
  const Eigen::VectorXd values = eigen::values(field, points, &tree), plain = eigen::values(field, points);
  for (Eigen::Index row = 0; row < 40; ++row) {
    CHECK((values[row] < 0.0) == (plain[row] < 0.0));
    CHECK((values[row] == 0.0) == (plain[row] == 0.0));
    CHECK(std::fabs(values[row]) <= std::fabs(plain[row]) + 1e-6);
  }
}

TEST_CASE("values for marching cubes are near the exact ones and have their signs") {
  const SignField field(octahedron());
  const Eigen::MatrixXd points = some_points();
  const Eigen::VectorXd values = eigen::values(field, points);
  const Numbers expected = eigen::signs(field, points);
  for (Eigen::Index row = 0; row < points.rows(); ++row) {
    CHECK((values[row] > 0) - (values[row] < 0) == expected[row]);
    CHECK(std::fabs(values[row] - (points.row(row).cwiseAbs().sum() - 1.0)) < 1e-15);
  }
  Eigen::RowVector3d tiny(0.0, 0x1p-1000, 0.0);
  SignOptions options;
  options.iso = -1.0;
  CHECK(eigen::values(SignField(octahedron(), options), tiny)[0] > 0.0);
}

TEST_CASE("values of a solid are those of its field inside, and positive on the border of the domain") {
  SignOptions options;
  options.domain = Box{{-0.5, -0.5, -0.5}, {0.5, 0.5, 0.5}};
  const SignField field(octahedron(), options);
  const Eigen::MatrixXd points = some_points();
  const Eigen::VectorXd values = eigen::values(BoundedField(field), points), of_field = eigen::values(field, points);
  for (Eigen::Index row = 0; row < points.rows(); ++row) {
    const double wall = points.row(row).cwiseAbs().maxCoeff() - 0.5;
    CHECK((values[row] < 0.0) == (wall < 0.0 && of_field[row] < 0.0));
  }
  CHECK((values.array() < 0.0).any());
  CHECK(((values.array() > 0.0) && (of_field.array() < 0.0)).any());
  CHECK(eigen::values(BoundedField(field), points.cast<float>().eval()) == values);
  CHECK_THROWS_AS(eigen::values(BoundedField(field), Eigen::MatrixXd::Zero(3, 40)), InvalidArgument);
}

TEST_CASE("what is undecided is no number, and rows of another size are refused") {
  const SignField field(octahedron());
  CHECK_THROWS_WITH_AS(eigen::signs(field, Eigen::MatrixXd::Zero(3, 40)), doctest::Contains("transpose them?"),
                       InvalidArgument);
  std::vector<PointSign> room(39);
  CHECK_THROWS_AS(eigen::signs(field, some_points(), room), InvalidArgument);

  Graph twins;  // two outputs that are one function, which no precision can know
  const auto x = twins.add_input("x", ElementType::f32, {{-1, "batch"}, {1, ""}});
  const auto w = twins.add_constant("w", StoredTensor::from(Tensor<float>({1, 2}, {1.0F, 1.0F})));
  twins.outputs = {twins.add_node("twice", op::Gemm{}, {twins.add_node("tanh", op::Tanh{}, {x}), w})};
  SignOptions options;
  options.max_bits = 128;
  const SignField open(twins, Target{{0, 0}, OutputElement{0, 1}}, options);
  const Eigen::MatrixXd half = Eigen::MatrixXd::Constant(1, 1, 0.5);
  CHECK(eigen::signs(open, half)[0] == 2);
  CHECK(std::isnan(eigen::values(open, half)[0]));
}
#endif
