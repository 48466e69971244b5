#include <doctest/doctest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/mesh.hpp"
#include "implicit/implicit_networks.hpp"
#include "implicit/scalar_graph.hpp"
#include "region/mesh_certificate.hpp"
#include "region/mesh_networks.hpp"
#include "region/piece_network.hpp"
#include "support/approach.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;

namespace {

using Point = std::array<double, 3>;
using Rational = boost::multiprecision::cpp_rational;

const Box unit_box{{-1, -1, -1}, {1, 1, 1}};

/// Components of a mesh as sets of triangles that share edges: their Euler characteristics, in ascending order, by maps
/// alone. Every edge has two triangles, in opposite directions, or lies on the box.
std::vector<int> characteristics_of(const SurfaceMesh& mesh) {
  std::map<std::pair<int, int>, std::vector<int>> triangles_of;
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
    for (std::size_t i = 0; i < 3; ++i)
      triangles_of[{mesh.triangles[t][i], mesh.triangles[t][(i + 1) % 3]}].push_back(static_cast<int>(t));
  std::vector<int> part(mesh.triangles.size(), -1);
  std::vector<int> found;
  for (std::size_t start = 0; start < part.size(); ++start) {
    if (part[start] >= 0) continue;
    std::vector<std::size_t> open = {start};
    part[start] = static_cast<int>(found.size());
    std::set<int> vertices;
    int faces = 0, directed = 0, lonely = 0;
    while (!open.empty()) {
      const std::size_t t = open.back();
      open.pop_back();
      ++faces;
      for (std::size_t i = 0; i < 3; ++i) {
        const int a = mesh.triangles[t][i], b = mesh.triangles[t][(i + 1) % 3];
        vertices.insert(a);
        ++directed;
        REQUIRE(triangles_of[{a, b}].size() == 1);
        const auto other = triangles_of.find({b, a});
        if (other == triangles_of.end()) {
          ++lonely;
          for (const int v : {a, b}) {
            bool is_on_a_side = false;
            for (std::size_t c = 0; c < 3; ++c)
              is_on_a_side |= mesh.vertices[static_cast<std::size_t>(v)][c] == mesh.box.lower[c] ||
                              mesh.vertices[static_cast<std::size_t>(v)][c] == mesh.box.upper[c];
            CHECK(is_on_a_side);
          }
          continue;
        }
        const auto next = static_cast<std::size_t>(other->second.front());
        if (part[next] >= 0) continue;
        part[next] = static_cast<int>(found.size());
        open.push_back(next);
      }
    }
    found.push_back(static_cast<int>(vertices.size()) - (directed + lonely) / 2 + faces);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The same as the library says it.
std::vector<int> stated_characteristics(const SurfaceMesh& mesh) {
  std::vector<int> found;
  for (const MeshComponent& component : mesh.topology.components)
    found.push_back(static_cast<int>(component.euler_characteristic()));
  std::sort(found.begin(), found.end());
  return found;
}

SurfaceMesh mesh_of(const Graph& graph, double cell, const Box& box = unit_box, int threads = 1) {
  MeshOptions options;
  options.cell = cell;
  options.threads = threads;
  return mesh(graph, box, options);
}

Point corner(const SurfaceMesh& mesh, std::size_t triangle, std::size_t i) {
  return mesh.vertices[static_cast<std::size_t>(mesh.triangles[triangle][i])];
}

double dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

/// Volume within a closed mesh whose normals point outward.
double volume_of(const SurfaceMesh& mesh) {
  double sum = 0.0;
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
    sum += dot(corner(mesh, t, 0), cross(corner(mesh, t, 1), corner(mesh, t, 2))) / 6.0;
  return sum;
}

void check_closed(const SurfaceMesh& mesh, const std::vector<int>& characteristics) {
  CHECK(characteristics_of(mesh) == characteristics);
  CHECK(stated_characteristics(mesh) == characteristics);
  CHECK(mesh.topology.boundary_edges == 0);
  CHECK(mesh.is_certified());
  for (const MeshComponent& component : mesh.topology.components) CHECK(component.is_certified);
}

}  // namespace

TEST_CASE("spheres, a torus, two spheres and polyhedra have the topology that they have") {
  constexpr double pi = 3.14159265358979;
  const SurfaceMesh ball = mesh_of(mesh_networks::sphere(0.5F), 0.125);
  check_closed(ball, {2});
  CHECK(volume_of(ball) == doctest::Approx(4.0 / 3.0 * pi * std::pow(0.5, 1.5)).epsilon(0.05));
  const SurfaceMesh ring = mesh_of(mesh_networks::torus(), 0.0625);
  check_closed(ring, {0});
  CHECK(ring.topology.components.front().genus() == 1);
  CHECK(volume_of(ring) == doctest::Approx(2.0 * pi * pi * 0.5 / 16.0).epsilon(0.05));
  check_closed(mesh_of(mesh_networks::two_spheres(false), 0.125), {2, 2});
  const SurfaceMesh nested = mesh_of(mesh_networks::two_spheres(true), 0.125);
  check_closed(nested, {2, 2});
  CHECK(volume_of(nested) < volume_of(ball));  // the inner one is a hole
}

TEST_CASE("creases between surfaces that bend are certified where they turn by less than a right angle") {
  for (const bool is_union : {false, true}) {
    const SurfaceMesh surface = mesh_of(mesh_networks::crossing_balls(is_union), 0.0625);
    CHECK(surface.is_certified());
    REQUIRE(surface.topology.components.size() == 1);
    CHECK(surface.topology.components[0].genus() == 0);
    CHECK_FALSE(surface.is_exact);
  }
}

TEST_CASE("solids of plane faces are meshed exactly, whatever the cells, and where several creases meet in a corner") {
  // 4/3 of the cube of the half diagonal, over the determinant of the map.
  constexpr double determinant =
      0.75 * (0.75 * 0.875 + 0.125 * 0.25) + 0.5 * (0.5 * 0.875 - 0.125 * 0.125) + 0.25 * (0.5 * 0.25 + 0.75 * 0.125);
  const std::vector<std::pair<Graph, double>> solids = {{mesh_networks::octahedron(false), 1.0 / 6.0},
                                                        {mesh_networks::octahedron(true), 1.0 / 6.0 / determinant},
                                                        {mesh_networks::octahedron_of_rectifiers(), 1.0 / 6.0},
                                                        {mesh_networks::cube(0.5F), 1.0}};
  for (const double cell : {0.125, 0.5})
    for (const auto& [graph, volume] : solids) {
      const SurfaceMesh solid = mesh_of(graph, cell);
      check_closed(solid, {2});
      CHECK(solid.is_exact);
      CHECK_EXACT("T-164", std::fabs(volume_of(solid) - volume) < 1e-12);
      CHECK(solid.distance < 1e-9);
    }
}

TEST_CASE("planes through the diagonals of cells, and solids with corners on the sides of the box, are certified") {
  for (const double cell : {0x1p-3, 0x1p-4, 0.3}) {
    for (const auto& [a, b, c, d] : {std::array<float, 4>{1, -1, 0, 0},
                                     {0, 1, 1, 0},
                                     {1, 1, 1, -1},
                                     {1, -1, 1, -1},
                                     {1, 0, -1, 0},
                                     {1, 1, -2, 0},
                                     {1, 0, 0, -1},
                                     {1, 1, 1, 3}}) {
      mesh_networks::Builder build;
      const SurfaceMesh plane = mesh_of(build.result(build.affine(build.x(), 3, {a, b, c}, {d})), cell);
      CHECK(plane.is_certified());
      CHECK(plane.topology.components.size() == 1);
    }
    mesh_networks::Builder build;
    const ValueId absolute = build.apply(op::Abs{}, {build.x()});
    const SurfaceMesh solid = mesh_of(build.result(build.affine(absolute, 3, {1, 1, 1}, {-1})), cell);
    check_closed(solid, {2});
    CHECK(std::fabs(volume_of(solid) - 4.0 / 3.0) < 1e-12);
    mesh_networks::Builder wedges;
    const ValueId sizes = wedges.apply(op::Abs{}, {wedges.x()});
    const SurfaceMesh crossed = mesh_of(wedges.result(wedges.affine(sizes, 3, {1, -1, 0}, {0})), cell);
    CHECK(crossed.uncertain_cells == crossed.cells.extents[2]);  // along the line x = y = 0
  }
}

TEST_CASE("a surface that passes a corner of pieces is undecided there alone, and its mesh closed all the same") {
  const SurfaceMesh cones = mesh_of(mesh_networks::two_cones(), 0.25);
  CHECK_FALSE(cones.is_certified());
  CHECK(cones.uncertain_cells == 1);
  for (std::size_t i = 0; i < cones.is_uncertain.size(); ++i)
    if (cones.is_uncertain[i]) CHECK(cones.cells.cells[i] == std::array<std::int64_t, 3>{4, 4, 4});
  for (const MeshComponent& component : cones.topology.components) CHECK_FALSE(component.is_certified);
  CHECK_FALSE(cones.has_certified_part());
  CHECK(std::isinf(cones.distance));
  CHECK(characteristics_of(cones) == stated_characteristics(cones));
}

namespace {

/// Whether a segment passes a triangle; nothing where it is too near an edge of it, or the plane too near an end.
std::optional<bool> passes(const SurfaceMesh& mesh, std::size_t triangle, const Point& from, const Point& to) {
  const auto minus = [](const Point& a, const Point& b) { return Point{a[0] - b[0], a[1] - b[1], a[2] - b[2]}; };
  const Point a = corner(mesh, triangle, 0), b = corner(mesh, triangle, 1), c = corner(mesh, triangle, 2);
  const auto volume = [&](const Point& p, const Point& q, const Point& r, const Point& s) {
    return dot(minus(q, p), cross(minus(r, p), minus(s, p)));
  };
  constexpr double margin = 1e-13;
  const double ends[] = {volume(from, a, b, c), volume(to, a, b, c)};
  const double sides[] = {volume(from, to, a, b), volume(from, to, b, c), volume(from, to, c, a)};
  const auto all = [&](auto holds) { return std::all_of(std::begin(sides), std::end(sides), holds); };
  const bool is_apart = (ends[0] > margin && ends[1] > margin) || (ends[0] < -margin && ends[1] < -margin) ||
                        (*std::max_element(std::begin(sides), std::end(sides)) > margin &&
                         *std::min_element(std::begin(sides), std::end(sides)) < -margin);
  if (is_apart) return false;
  const bool is_certain = std::fabs(ends[0]) > margin && std::fabs(ends[1]) > margin &&
                          (all([](double x) { return x > margin; }) || all([](double x) { return x < -margin; }));
  return is_certain ? std::optional(true) : std::nullopt;
}

}  // namespace

TEST_CASE("meshes of random rectifiers lie where exact numbers have the zeros, and separate the signs that they have") {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (int round = 0; round < 3; ++round) {
    const mesh_networks::Rectifiers network(7, random);
    const double lipschitz = network.lipschitz();
    const auto exact = [&](const Point& x) {
      return network.value<Rational>({Rational(x[0]), Rational(x[1]), Rational(x[2])});
    };
    const SurfaceMesh surface = mesh_of(network.graph(), round == 0 ? 0.25 : 0.5);
    REQUIRE(!surface.triangles.empty());
    CHECK(surface.is_certified());
    CHECK(surface.distance < 1e-9);
    CHECK(characteristics_of(surface) == stated_characteristics(surface));
    for (std::size_t t = 0; t < surface.triangles.size(); ++t) {
      Point middle{};
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t c = 0; c < 3; ++c) middle[c] += corner(surface, t, i)[c] / 3.0;
      CHECK(abs(exact(middle)) <= Rational(lipschitz * (surface.distance + 1e-15)));
    }
    for (std::size_t v = 0; v < surface.vertices.size(); ++v)
      CHECK(abs(exact(surface.vertices[v])) <= Rational(lipschitz * surface.vertex_distances[v]));
    int counted = 0, different = 0;
    for (int trial = 0; trial < 200; ++trial) {
      const Point from = {uniform(random), uniform(random), uniform(random)};
      const Point to = {uniform(random), uniform(random), uniform(random)};
      int crossings = 0;
      bool is_certain = true;
      for (std::size_t t = 0; t < surface.triangles.size(); ++t) {
        const std::optional<bool> found = passes(surface, t, from, to);
        is_certain = is_certain && found.has_value();
        crossings += found.value_or(false) ? 1 : 0;
      }
      if (!is_certain) continue;
      ++counted;
      const bool is_different = (exact(from) > 0) != (exact(to) > 0);
      different += is_different ? 1 : 0;
      CHECK((crossings % 2 == 1) == is_different);
    }
    CHECK(counted > 150);
    CHECK(different > 5);
  }
}

namespace {

/// Compares what is known of a network with its values by fractions. Returns the largest share of a radius that is used.
template <class Value>
double check_values(const Graph& graph, const Value& value_at) {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  const auto network =
      region::PieceNetwork::of(implicit::scalar_graph(graph, implicit::checked_target(graph, nullptr), 0.0));
  REQUIRE(network);
  region::PieceNetwork::Workspace workspace;
  std::vector<std::int8_t> signs(network->signs()), exact_signs(network->signs());
  std::vector<region::EnclosedNumber> arguments(network->signs());
  std::vector<region::ExactNumber> fractions(network->signs());
  double share = 0.0;
  int known = 0;
  for (int round = 0; round < 300; ++round) {
    region::EnclosedPoint point;
    for (region::EnclosedNumber& x : point.at)
      x = {uniform(random), round % 3 == 0 ? 0.0 : std::ldexp(1.0, -round / 8)};
    std::fill(signs.begin(), signs.end(), region::open_sign);
    if (!network->evaluate(point, signs, arguments, workspace)) continue;
    ++known;
    for (std::size_t end = 0; end < 8; ++end) {
      std::array<Rational, 3> x;
      region::ExactPoint exact;
      mpz_set_ui(exact.denominator.get(), 3);
      mpz_mul_2exp(exact.denominator.get(), exact.denominator.get(), 100);
      for (std::size_t c = 0; c < 3; ++c) {
        // A third of the way between the ends, or an end.
        const int thirds = round % 2 == 0 ? 1 : 3;
        x[c] = Rational(point.at[c].middle) + Rational(point.at[c].radius) * thirds / ((end >> c & 1) != 0 ? 3 : -3);
        const Rational digits = x[c] * Rational(0x1p100) * 3;
        REQUIRE(denominator(digits) == 1);
        mpz_set_str(exact.digits[c].get(), numerator(digits).str().c_str(), 10);
      }
      const Rational value = value_at(x);
      network->evaluate(exact, exact_signs, fractions, workspace);
      CHECK(exact_signs == signs);
      char* const text = mpz_get_str(nullptr, 10, fractions.back().digits.get());
      const Rational found =
          Rational(text) * Rational(std::ldexp(1.0, -static_cast<int>(fractions.back().bits))) / 3 / Rational(0x1p100);
      void (*free_text)(void*, std::size_t) = nullptr;
      mp_get_memory_functions(nullptr, nullptr, &free_text);
      free_text(text, std::strlen(text) + 1);
      CHECK_EXACT("T-165", found == value);
      const Rational off = abs(value - Rational(arguments.back().middle));
      CHECK(off <= Rational(arguments.back().radius));
      if (round % 3 != 0) share = std::fmax(share, (off / Rational(arguments.back().radius)).convert_to<double>());
    }
  }
  CHECK(known > 200);
  return share;
}

/// 0.3 t + max(t, 0) of t = 0.7 x + 1.3 y - 0.9 z, without a product of matrices, whose errors would hide those of sums.
Graph sums_and_multiples() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, ""}, {3, ""}});
  int count = 0;
  const auto name = [&] { return "v" + std::to_string(count++); };
  const auto multiple = [&](ValueId of, float factor) {
    const ValueId a = graph.add_constant(name(), StoredTensor::from(Tensor<float>({1}, {factor})));
    return graph.add_node(name(), op::Mul{}, {of, a});
  };
  const auto column = [&](std::int64_t at) { return graph.add_node(name(), op::Slice{{at}, {at + 1}, {1}, {}}, {x}); };
  const ValueId sum = graph.add_node(name(), op::Add{}, {multiple(column(0), 0.7F), multiple(column(1), 1.3F)});
  const ValueId z = graph.add_node(name(), op::Sub{}, {sum, multiple(column(2), 0.9F)});
  graph.outputs = {graph.add_node(name(), op::Add{}, {multiple(z, 0.3F), graph.add_node(name(), op::Relu{}, {z})})};
  return graph;
}

}  // namespace

TEST_CASE("values of networks at points that are known but for a radius, and at fractions") {
  std::mt19937_64 random(17);
  double share = 0.0;
  for (const bool has_bias : {true, false}) {
    const mesh_networks::Rectifiers network(7, random, has_bias);
    share = std::fmax(share, check_values(network.graph(), [&](const auto& x) { return network.value<Rational>(x); }));
  }
  share = std::fmax(share, check_values(mesh_networks::Mixture::graph(),
                                        [](const auto& x) { return mesh_networks::Mixture::value<Rational>(x); }));
  share = std::fmax(share, check_values(sums_and_multiples(), [](const auto& x) {
                      const auto number = [](float value) { return Rational(static_cast<double>(value)); };
                      const Rational z = number(0.7F) * x[0] + number(1.3F) * x[1] - number(0.9F) * x[2];
                      return Rational(number(0.3F) * z + (z > 0 ? z : Rational(0)));
                    }));
  CHECK_APPROACH("T-165", share, 1.0);
}

TEST_CASE(
    "no point of a sphere is farther from the mesh than the distance says, and none of the mesh from the sphere") {
  const double radius = std::sqrt(0.5);
  double share = 0.0;
  for (const double cell : {0.125, 0.0625}) {
    const SurfaceMesh ball = mesh_of(mesh_networks::sphere(0.5F), cell);
    double farthest = 0.0;
    for (std::size_t t = 0; t < ball.triangles.size(); ++t) {
      Point middle{};
      for (std::size_t i = 0; i < 3; ++i) {
        const Point at = corner(ball, t, i);
        const double off = std::fabs(std::sqrt(dot(at, at)) - radius);
        CHECK(off <= ball.vertex_distances[static_cast<std::size_t>(ball.triangles[t][i])] + 1e-15);
        for (std::size_t c = 0; c < 3; ++c) middle[c] += at[c] / 3.0;
      }
      farthest = std::fmax(farthest, std::fabs(std::sqrt(dot(middle, middle)) - radius));
    }
    CHECK(farthest <= ball.distance);
    share = std::fmax(share, farthest / ball.distance);
    CHECK(*std::max_element(ball.vertex_distances.begin(), ball.vertex_distances.end()) < 0.01 * cell);
  }
  CHECK_APPROACH("T-163", share, 0.05);
}

TEST_CASE("where gradients turn by much in a cell, mesh and surface are a few diagonals of a cell apart at most") {
  double share = 0.0;
  int certified = 0;
  for (const double cell : {0.125, 0.25, 0.5}) {
    const SurfaceMesh ring = mesh_of(implicit_networks::bundled("torus_sdf_softplus"), cell);
    if (!ring.is_certified()) continue;
    ++certified;
    const double diagonal = std::hypot(ring.cells.step[0], ring.cells.step[1], ring.cells.step[2]);
    CHECK(ring.distance <= 3.001 * diagonal);
  }
  for (const double cell : {0.125, 0.25, 0.5}) {
    const SurfaceMesh ring = mesh_of(mesh_networks::torus(), cell);
    if (!ring.is_certified()) continue;
    ++certified;
    std::vector<Point> points;  // of the mesh
    double gap = 0.0;
    for (std::size_t t = 0; t < ring.triangles.size(); ++t) {
      const Point a = corner(ring, t, 0), b = corner(ring, t, 1), c = corner(ring, t, 2);
      constexpr int parts = 4;
      for (int i = 0; i <= parts; ++i)
        for (int j = 0; i + j <= parts; ++j) {
          Point x{};
          for (std::size_t k = 0; k < 3; ++k) x[k] = a[k] + (i * (b[k] - a[k]) + j * (c[k] - a[k])) / parts;
          points.push_back(x);
        }
      gap = std::fmax(gap, std::hypot(b[0] - a[0], b[1] - a[1], b[2] - a[2]) / parts);
      gap = std::fmax(gap, std::hypot(c[0] - a[0], c[1] - a[1], c[2] - a[2]) / parts);
    }
    // (sqrt(x² + y²) - R)² + z² = r²
    const double large = 0.5, small = 0.25;
    double farthest = 0.0;
    for (const Point& x : points)
      farthest = std::fmax(farthest, std::fabs(std::hypot(std::hypot(x[0], x[1]) - large, x[2]) - small));
    CHECK(farthest <= ring.distance);
    share = std::fmax(share, farthest / ring.distance);
    for (int trial = 0; trial < 200; ++trial) {
      const double u = 0.1 * trial, v = 1.7 * trial, from_axis = large + small * std::cos(v);
      const Point x = {from_axis * std::cos(u), from_axis * std::sin(u), small * std::sin(v)};
      double nearest = 4.0;
      for (const Point& y : points) nearest = std::fmin(nearest, std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]));
      CHECK(nearest <= ring.distance + gap);
    }
  }
  CHECK(certified > 2);
  CHECK_APPROACH("T-143", share, 0.118);
}

TEST_CASE("a direction that is found has at least the rate that it says, in exact numbers") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  double share = 0.0;
  int found = 0;
  for (int round = 0; round < 400; ++round) {
    const double scale = std::ldexp(1.0, static_cast<int>(random() % 200) - 100);
    meshing::GradientBox box;
    for (std::size_t c = 0; c < 3; ++c) {
      const double middle = uniform(random), half = 0.3 * std::fabs(uniform(random));
      box.lower[c] = scale * (middle - half);
      box.upper[c] = scale * (middle + half);
    }
    std::vector<Point> gradients(6);
    for (Point& gradient : gradients)
      for (std::size_t c = 0; c < 3; ++c)
        gradient[c] = box.lower[c] + (box.upper[c] - box.lower[c]) * (0.6 * uniform(random) + 0.5);
    const bool is_turned = round % 2 == 1;
    const meshing::Basis& basis = meshing::turned_bases[static_cast<std::size_t>(round) % 7];
    const std::array<bool, 3> touched = {round % 5 == 0, false, false};
    const auto ascent = is_turned ? meshing::common_ascent(basis, box, {gradients, false}, touched)
                                  : meshing::common_ascent(box, {gradients, false}, touched);
    if (!ascent) continue;
    ++found;
    const auto& d = ascent->direction;
    if (touched[0]) CHECK(d[0] == 0.0);
    const auto product = [&](const Point& p) {
      Rational sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += Rational(p[c]) * Rational(d[c]);
      return sum;
    };
    for (const Point& gradient : gradients) CHECK(product(gradient) > 0);
    // Corners of the box; in a turned basis its coordinates are products with the vectors.
    Rational least = 1000 * Rational(scale);
    for (std::size_t corner = 0; corner < 8; ++corner) {
      Point p{};
      for (std::size_t c = 0; c < 3; ++c) p[c] = (corner >> c & 1) != 0 ? box.upper[c] : box.lower[c];
      if (!is_turned) {
        least = std::min(least, product(p));
        continue;
      }
      Rational sum = 0;
      for (std::size_t j = 0; j < 3; ++j) {
        Rational weight = 0;
        int square = 0;
        for (std::size_t c = 0; c < 3; ++c) {
          weight += basis.vectors[j][c] * Rational(d[c]);
          square += basis.vectors[j][c] * basis.vectors[j][c];
        }
        sum += weight / square * Rational(p[j]);
      }
      least = std::min(least, sum);
    }
    const Rational square =
        Rational(d[0]) * Rational(d[0]) + Rational(d[1]) * Rational(d[1]) + Rational(d[2]) * Rational(d[2]);
    const Rational rate = Rational(ascent->rate);
    CHECK(rate * rate * std::max(square, Rational(is_turned ? 0 : 1)) <= least * least);
    CHECK(least > 0);
    share = std::fmax(share, ascent->rate * std::sqrt(square.convert_to<double>()) / least.convert_to<double>());
  }
  CHECK(found > 100);
  CHECK_APPROACH("T-161", share, 0.99);
}

TEST_CASE(
    "the piecewise linear function has one sign on a part where exact numbers say so, and the gradients that it has") {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  SurfaceCells cells{.lower = {0, 0, 0},
                     .step = {1, 0.5, 0.25},
                     .extents = {2, 1, 1},
                     .cells = {{0, 0, 0}, {1, 0, 0}},
                     .nodes = {},
                     .corners = {},
                     .values = {}};
  meshing::number_nodes(cells);
  const meshing::CellIndex index(cells);
  int certain = 0;
  for (int round = 0; round < 300; ++round) {
    cells.values.clear();
    for (std::size_t i = 0; i < cells.nodes.size(); ++i) cells.values.push_back(uniform(random) + 0.4);
    const meshing::Part part{static_cast<std::int32_t>(random() % 2),
                             2,
                             {static_cast<std::int16_t>(random() % 4), static_cast<std::int16_t>(random() % 4),
                              static_cast<std::int16_t>(random() % 4)}};
    const int sign = meshing::sign_over(cells, cells.values, part);
    const auto& corners = cells.corners[static_cast<std::size_t>(part.cell)];
    std::vector<Point> gradients;
    meshing::gradients_around(cells, index, cells.values, part, gradients);
    if (sign != 0) ++certain;
    for (int trial = 0; trial < 20; ++trial) {
      std::array<Rational, 3> y;
      for (std::size_t c = 0; c < 3; ++c)
        y[c] = Rational(part.place[c]) / 4 + Rational(static_cast<int>(random() % 9)) / 32;
      std::array<std::size_t, 3> order = {0, 1, 2};
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return y[a] > y[b]; });
      Rational value = Rational(cells.values[static_cast<std::size_t>(corners[0])]);
      std::size_t at = 0;
      Point gradient{};
      for (const std::size_t axis : order) {
        const double before = cells.values[static_cast<std::size_t>(corners[at])];
        at |= std::size_t{1} << axis;
        const double after = cells.values[static_cast<std::size_t>(corners[at])];
        value += y[axis] * (Rational(after) - Rational(before));
        gradient[axis] = (after - before) / cells.step[axis];
      }
      if (sign != 0) CHECK((value > 0) == (sign > 0));
      CHECK(std::find(gradients.begin(), gradients.end(), gradient) != gradients.end());
    }
  }
  CHECK(certain > 50);
}

TEST_CASE("a surface that leaves the box ends in curves on its sides") {
  const SurfaceMesh octant = mesh_of(mesh_networks::sphere(0.5F), 0.0625, Box{{0, 0, 0}, {1, 1, 1}});
  CHECK(characteristics_of(octant) == std::vector<int>{1});
  REQUIRE(octant.topology.components.size() == 1);
  CHECK(octant.topology.components.front().boundary_loops == 1);
  CHECK(octant.topology.components.front().genus() == 0);
  CHECK(octant.is_certified());
  // A pipe: the torus cut at two places.
  const SurfaceMesh pipes = mesh_of(mesh_networks::torus(), 0.0625, Box{{-1, 0, -1}, {1, 1, 1}});
  REQUIRE(pipes.topology.components.size() == 1);
  CHECK(pipes.topology.components.front().boundary_loops == 2);
  CHECK(pipes.topology.components.front().genus() == 0);
  CHECK(pipes.is_certified());
}

TEST_CASE("planes that cross are undecided where they do, and nothing connected to that is certified") {
  const SurfaceMesh planes = mesh_of(mesh_networks::crossing_planes(), 0.25);
  CHECK_FALSE(planes.is_certified());
  CHECK(planes.uncertain_cells > 0);
  for (std::size_t i = 0; i < planes.is_uncertain.size(); ++i) {
    if (!planes.is_uncertain[i]) continue;
    for (std::size_t c = 0; c < 2; ++c) {
      const double low = planes.cells.lower[c] + planes.cells.step[c] * static_cast<double>(planes.cells.cells[i][c]);
      CHECK(low - 0.25 <= -0.015625);  // in the cells of the line, or next to them
      CHECK(low + 0.5 >= -0.015625);
    }
  }
  for (const MeshComponent& component : planes.topology.components) CHECK_FALSE(component.is_certified);
  CHECK(std::isinf(planes.distance));
}

TEST_CASE("cells are halved where some are uncertain, but for those of exact meshes") {
  MeshOptions options;
  options.cell = 0.5;
  options.depth = 0;
  CHECK_FALSE(mesh(mesh_networks::torus(), unit_box, options).is_certified());
  options.refinements = 5;
  const SurfaceMesh ring = mesh(mesh_networks::torus(), unit_box, options);
  check_closed(ring, {0});
  CHECK(ring.refinements > 0);
  CHECK(ring.cells.extents[0] > 4 << ring.refinements);
  options.depth = 2;
  options.refinements = 2;
  const SurfaceMesh planes = mesh(mesh_networks::crossing_planes(), unit_box, options);
  CHECK_FALSE(planes.is_certified());
  CHECK(planes.refinements == 2);
  CHECK(mesh(mesh_networks::two_cones(), unit_box, options).refinements == 0);
  options.refinements = 13;
  CHECK_THROWS_AS(mesh(mesh_networks::torus(), unit_box, options), InvalidArgument);
}

TEST_CASE("a value that is never reached gives an empty mesh") {
  MeshOptions options;
  options.iso = 100.0;
  options.cell = 0.25;
  const SurfaceMesh nothing = mesh(mesh_networks::sphere(0.5F), unit_box, options);
  CHECK(nothing.triangles.empty());
  CHECK(nothing.topology.components.empty());
  CHECK(nothing.is_certified());
  CHECK(nothing.distance == 0.0);
}

TEST_CASE("a bundled network of softplus is a torus, and one of rectifiers one part, whatever the number of threads") {
  const Graph torus = implicit_networks::bundled("torus_sdf_softplus");
  const SurfaceMesh one = mesh_of(torus, 0.0625), two = mesh_of(torus, 0.0625, unit_box, 2);
  check_closed(one, {0});
  CHECK(one.vertices == two.vertices);
  CHECK(one.triangles == two.triangles);
  CHECK(one.distance == two.distance);
  CHECK(one.boxes == two.boxes);
}

TEST_CASE("boxes that do not divide into cells of few bits are meshed a little larger") {
  const Box box{{-0.9, -0.7, -0.8}, {0.7, 0.9, 0.6}};
  const SurfaceMesh ball = mesh_of(mesh_networks::sphere(0.25F), 0.1, box);
  check_closed(ball, {2});
  for (std::size_t c = 0; c < 3; ++c) {
    const double side = box.upper[c] - box.lower[c];
    CHECK(ball.box.lower[c] <= box.lower[c]);
    CHECK(ball.box.upper[c] >= box.upper[c]);
    CHECK(ball.box.upper[c] - ball.box.lower[c] <= side * (1.0 + 0x1p-20));
    CHECK(ball.cells.step[c] <= 0.1 * (1.0 + 0x1p-20));
  }
}

TEST_CASE("other values at the nodes give other surfaces") {
  const SurfaceMesh ball = mesh_of(mesh_networks::sphere(0.5F), 0.125);
  const SurfaceMesh same = mesh_of_values(ball.cells, ball.cells.values);
  CHECK(same.triangles == ball.triangles);
  std::vector<double> values = ball.cells.values;
  const auto inner = static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  values[inner] = -1e-9;  // as noise would have it
  const SurfaceMesh specks = mesh_of_values(ball.cells, values);
  CHECK(specks.triangles.size() > ball.triangles.size());
  CHECK_FALSE(specks.is_certified());
  CHECK_FALSE(mesh_of_values({}, {}).is_certified());
  std::size_t wrong = 0;
  for (std::size_t t = 0; t < specks.triangles.size(); ++t) {
    const auto& corners = specks.cells.corners[static_cast<std::size_t>(specks.cell_of[t])];
    const bool has_inner = std::find(corners.begin(), corners.end(), static_cast<std::int32_t>(inner)) != corners.end();
    CHECK(specks.state_of(t) == (has_inner ? MeshFaceState::wrong_signs : MeshFaceState::computed));
    wrong += has_inner ? 1 : 0;
  }
  CHECK(wrong > 0);
}

namespace {

/// Of a binary .ply file: certified and state of every triangle.
std::vector<std::pair<int, int>> flags_of(const std::string& ply, std::size_t triangles) {
  constexpr std::size_t row = 1 + 12 + 4 + 1 + 1 + 3;
  std::vector<std::pair<int, int>> flags;
  for (std::size_t t = 0; t < triangles; ++t) {
    const std::size_t at = ply.size() - (triangles - t) * row + 17;
    flags.emplace_back(ply[at], ply[at + 1]);
  }
  return flags;
}

/// Of a binary .ply file: the colour of every vertex.
std::vector<std::array<int, 3>> colours_of(const std::string& ply, std::size_t vertices) {
  constexpr std::size_t row = 32 + 3;
  const std::size_t header = ply.find("end_header\n") + 11;
  std::vector<std::array<int, 3>> colours;
  for (std::size_t i = 0; i < vertices; ++i) {
    const auto byte = [&](std::size_t part) {
      return static_cast<int>(static_cast<unsigned char>(ply[header + i * row + 32 + part]));
    };
    colours.push_back({byte(0), byte(1), byte(2)});
  }
  return colours;
}

}  // namespace

TEST_CASE("files call no triangle of computed values certified, and those of a component what the component is") {
  const test::TemporaryFolder folder;
  const SurfaceMesh ball = mesh_of(mesh_networks::sphere(0.5F), 0.25);
  const auto text_of = [&](const SurfaceMesh& surface, const std::string& name) {
    write_mesh(surface, folder.file(name));
    return test::read_file(folder.file(name));
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  std::vector<double> values = ball.cells.values;
  values.front() = -values.front();
  const SurfaceMesh computed = mesh_of_values(ball.cells, values);
  for (const char* name : {"v.ply", "v.obj", "v.vtp", "v.stl"}) {
    CHECK(has(text_of(ball, name), "with a certificate"));
    const std::string text = text_of(computed, name);
    CHECK(has(text, "computed values, without a certificate"));
    CHECK_FALSE(has(text, "with a certificate"));
  }
  std::set<std::pair<int, int>> found;
  for (const auto& flags : flags_of(text_of(computed, "v.ply"), computed.triangles.size())) found.insert(flags);
  CHECK(found == std::set<std::pair<int, int>>{{0, 3}, {0, 4}});
  CHECK(has(text_of(computed, "v.obj"), "g component_0_"));
  for (const auto& flags : flags_of(text_of(ball, "b.ply"), ball.triangles.size())) CHECK(flags == std::pair{1, 0});

  // Two sheets that cross, and a ball apart from them.
  const SurfaceMesh some = mesh_of(mesh_networks::crossing_planes_and_a_sphere(), 0.125, Box{{-1, -1, -1}, {3, 1, 1}});
  REQUIRE_FALSE(some.is_certified());
  const auto flags = flags_of(text_of(some, "s.ply"), some.triangles.size());
  std::set<std::pair<int, int>> states;
  for (std::size_t t = 0; t < flags.size(); ++t) {
    const auto component = static_cast<std::size_t>(some.topology.component[t]);
    CHECK((flags[t].first == 1) == some.topology.components[component].is_certified);
    CHECK((flags[t].second == 2) == some.is_uncertain[static_cast<std::size_t>(some.cell_of[t])]);
    states.insert(flags[t]);
  }
  CHECK(states == std::set<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 0}});
  // A vertex has the colour of what is least certain around it.
  const std::array<std::array<int, 3>, 3> looks = {{{176, 196, 222}, {253, 191, 111}, {214, 39, 40}}};
  std::vector<std::size_t> worst(some.vertices.size(), 0);
  for (std::size_t t = 0; t < flags.size(); ++t)
    for (const std::int32_t corner : some.triangles[t]) {
      std::size_t& state = worst[static_cast<std::size_t>(corner)];
      state = std::max(state, static_cast<std::size_t>(flags[t].second));
    }
  const auto colours = colours_of(text_of(some, "s.ply"), some.vertices.size());
  for (std::size_t i = 0; i < colours.size(); ++i) CHECK(colours[i] == looks[worst[i]]);
  CHECK(has(text_of(some, "s.ply"), "not all is certified"));
}

TEST_CASE("boxes, cells and networks that make no mesh are refused, saying why") {
  const Graph ball = mesh_networks::sphere(0.5F);
  const auto refusal = [&](const Box& box, double cell = 0.25, int depth = 4, const Graph* graph = nullptr) {
    MeshOptions options;
    options.cell = cell;
    options.depth = depth;
    try {
      mesh(graph == nullptr ? ball : *graph, box, options);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  CHECK(has(refusal({{-1, 1, -1}, {1, -1, 1}}), "coordinate 1 of the box is 1:-1, which is reversed"));
  CHECK(has(refusal({{-1, 0, -1}, {1, 0, 1}}), "which is empty"));
  CHECK(has(refusal({{-1, nan, -1}, {1, 0, 1}}), "which is not finite"));
  CHECK(has(refusal({{-1, -infinity, -1}, {1, 0, 1}}), "which is not finite"));
  CHECK(has(refusal({{-1, -1e39, -1}, {1, 0, 1}}), "beyond the largest float32 number"));
  CHECK(has(refusal({{-1, -1}, {1, 1}}), "a box of three coordinates"));
  CHECK(has(refusal({{1e9, 0, 0}, {1e9 + 1e-6, 1, 1}}, 1e-7), "too narrow for its distance from 0"));
  CHECK(has(refusal(unit_box, 1e-9), "use larger cells"));
  CHECK(has(refusal(unit_box, -1.0), "must be a positive number"));
  CHECK(has(refusal(unit_box, nan), "must be a positive number"));
  CHECK(has(refusal(unit_box, 0.25, 40), "depth of 40 is out of range"));
  const Graph plane = implicit_networks::bundled("mlp_2_10_10_2");
  CHECK(refusal(unit_box, 0.25, 4, &plane) != "none");
  MeshOptions options;
  options.cell = 0.125;
  options.progress = [](std::int64_t, std::int64_t) { return false; };
  CHECK_THROWS_AS(mesh(ball, unit_box, options), Interrupted);
}

TEST_CASE("a mesh reports while it evaluates nodes, so that it can be ended there") {
  std::set<std::pair<std::int64_t, std::int64_t>> reported;
  MeshOptions options;
  options.cell = 0.125;
  options.progress = [&](std::int64_t done, std::int64_t known) { return reported.emplace(done, known), true; };
  const SurfaceMesh ball = mesh(mesh_networks::sphere(0.5F), unit_box, options);
  const auto nodes = static_cast<std::int64_t>(ball.cells.nodes.size());
  CHECK(reported.contains({nodes, nodes}));
}

TEST_CASE("triangles that share an edge wrongly are refused") {
  using Triangles = std::vector<std::array<std::int32_t, 3>>;
  CHECK_THROWS_AS(topology_of(5, Triangles{{0, 1, 2}, {1, 0, 3}, {0, 1, 4}}), InvalidArgument);
  CHECK_THROWS_AS(topology_of(4, Triangles{{0, 1, 2}, {0, 1, 3}}), InvalidArgument);
  const MeshTopology pair = topology_of(6, Triangles{{0, 1, 2}, {3, 4, 5}});
  CHECK(pair.components.size() == 2);
  CHECK(pair.boundary_edges == 6);
  CHECK(pair.components[0].boundary_loops == 1);
  CHECK(pair.components[0].euler_characteristic() == 1);
}

TEST_CASE("files hold the mesh, whole or not at all") {
  const test::TemporaryFolder folder;
  const SurfaceMesh ball = mesh_of(mesh_networks::sphere(0.5F), 0.25);
  for (const char* ending : {".ply", ".obj", ".vtp", ".stl"}) {
    const std::string file = folder.file("ball" + std::string(ending));
    write_mesh(ball, file);
    const std::string text = test::read_file(file);
    const std::string name = ending;
    if (name == ".ply") {
      CHECK(text.find("element vertex " + std::to_string(ball.vertices.size()) + "\n") != std::string::npos);
      const std::size_t header = text.find("end_header\n") + 11;
      CHECK(text.size() == header + (32 + 3) * ball.vertices.size() + (1 + 12 + 4 + 1 + 1 + 3) * ball.triangles.size());
    }
    if (name == ".obj")
      CHECK(std::count(text.begin(), text.end(), 'f') >= static_cast<std::ptrdiff_t>(ball.triangles.size()));
    if (name == ".stl") CHECK(text.size() == 84 + 50 * ball.triangles.size());
    if (name == ".vtp")
      CHECK(text.find("NumberOfPolys=\"" + std::to_string(ball.triangles.size()) + "\"") != std::string::npos);
  }
  CHECK_THROWS_AS(write_mesh(ball, folder.file("ball.off")), InvalidArgument);
  CHECK_THROWS_AS(write_mesh(ball, folder.file("no/ball.ply")), FileError);
  const SurfaceMesh planes = mesh_of(mesh_networks::crossing_planes(), 0.25);
  write_uncertain_cells(planes, folder.file("open.stl"));
  CHECK(test::read_file(folder.file("open.stl")).size() ==
        84 + 50 * 12 * static_cast<std::size_t>(planes.uncertain_cells));
}
