#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/rays.hpp"
#include "implicit/implicit_networks.hpp"
#include "region_checks.hpp"
#include "support/approach.hpp"

using namespace driftbound;
using implicit_networks::bundled;
using implicit_networks::octahedron;
using region_checks::depth_of;
using region_checks::Real;
using region_checks::uniform;

namespace {

/// From random points around the domain to random points in it.
Rays random_rays(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  Rays rays;
  rays.dimension = 3;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> from, along;
    for (std::size_t j = 0; j < 3; ++j) {
      from.push_back(4.0 * uniform(generator) - 2.0);
      along.push_back(2.0 * uniform(generator) - 1.0 - from.back());
    }
    rays.add(from, along, 0.0, 3.0);
  }
  return rays;
}

/// f at t, with 400 digits.
Real at(const Graph& graph, const Rays& rays, std::size_t ray, double t) {
  oracle::Evaluation<Real> evaluation;
  evaluation.set_constants(graph);
  auto point = oracle::matrix<Real>(Tensor<double>({1, 3}, {0.0, 0.0, 0.0}));
  for (std::size_t j = 0; j < 3; ++j)
    point.values[j] = Real(rays.origin[3 * ray + j]) + Real(t) * Real(rays.direction[3 * ray + j]);
  evaluation.set(graph.inputs.front(), point);
  for (const Node& node : graph.nodes) evaluation.set(node.output, evaluation.result(node));
  return evaluation.value(graph.outputs.front()).values.front();
}

bool is_in_domain(const Rays& rays, std::size_t ray, double t) {
  bool inside = true;
  for (std::size_t j = 0; j < 3; ++j)
    inside = inside && std::fabs(rays.origin[3 * ray + j] + t * rays.direction[3 * ray + j]) < 1.0 - 1e-9;
  return inside;
}

/// Signs of the exact network on a ray contradict nothing that is certain.
void check_ray(const Graph& graph, const Rays& rays, std::size_t ray, const RayHit& hit, int samples) {
  int before = 0;
  const double until = hit.verdict == RayVerdict::miss ? rays.last[ray] : hit.lower;
  for (int k = 0; k < samples; ++k) {
    const double t = until * (k + 0.5) / samples;
    if (!is_in_domain(rays, ray, t)) continue;
    const Real value = at(graph, rays, ray, t);
    const int sign = value > 0 ? 1 : value < 0 ? -1 : 0;
    const bool is_same = sign != 0 && (before == 0 || sign == before);
    CHECK(is_same);
    before = sign;
  }
  if (hit.verdict != RayVerdict::hit) return;
  const Real lower = at(graph, rays, ray, hit.lower), upper = at(graph, rays, ray, hit.upper);
  const bool changes = lower * upper <= 0;
  CHECK(changes);
}

}  // namespace

TEST_CASE("first crossings: no sign changes before them, and signs differ at their ends") {
  for (const char* name : {"sphere_cut_sdf_relu", "torus_sdf_softplus"}) {
    CAPTURE(name);
    const Graph graph = bundled(name);
    const Octree tree = Octree::build(graph, depth_of(5));
    const Rays rays = random_rays(400, 2);
    const std::vector<RayHit> hits = first_hits(tree, rays);
    std::size_t count[3] = {};
    for (std::size_t ray = 0; ray < rays.size(); ++ray) {
      ++count[static_cast<std::size_t>(hits[ray].verdict)];
      if (ray % 10 == 0) check_ray(graph, rays, ray, hits[ray], 10);
      if (hits[ray].verdict == RayVerdict::hit) CHECK(hits[ray].upper - hits[ray].lower <= 0x1p-19);
    }
    CHECK(count[static_cast<std::size_t>(RayVerdict::hit)] > 30);
    CHECK(count[static_cast<std::size_t>(RayVerdict::miss)] > 30);
    CHECK(count[static_cast<std::size_t>(RayVerdict::undecided)] < 10);
    RayOptions threads;
    threads.threads = 3;
    const std::vector<RayHit> again = first_hits(tree, rays, threads);
    for (std::size_t ray = 0; ray < rays.size(); ++ray) {
      CHECK(again[ray].verdict == hits[ray].verdict);
      CHECK(again[ray].lower == hits[ray].lower);
      CHECK(again[ray].upper == hits[ray].upper);
    }
  }
}

TEST_CASE("crossings with an octahedron are where they are") {
  const Graph graph = octahedron();
  const Octree tree = Octree::build(graph, depth_of(4));
  std::mt19937_64 generator(9);
  Rays rays;
  rays.dimension = 3;
  std::vector<Real> expected;
  for (int i = 0; i < 200; ++i) {
    const double x = 0.4 * uniform(generator), y = 0.4 * uniform(generator);
    rays.add(std::vector{x, y, 0.875}, std::vector{0.0, 0.0, -1.0}, 0.0, 2.0);
    expected.push_back(Real(0.875) - (Real(1) - Real(x) - Real(y)));  // from above, x and y positive
  }
  // On the border of cells.
  rays.add(std::vector{0.25, 0.25, 0.875}, std::vector{0.0, 0.0, -1.0}, 0.0, 2.0);
  expected.push_back(Real(0.375));
  double closest = 0.0;
  const std::vector<RayHit> hits = first_hits(tree, rays);
  for (std::size_t ray = 0; ray < rays.size(); ++ray) {
    if (expected[ray] < 0) continue;  // it starts inside
    CAPTURE(ray);
    CHECK(hits[ray].verdict == RayVerdict::hit);
    const bool is_right = Real(hits[ray].lower) <= expected[ray] && expected[ray] <= Real(hits[ray].upper);
    CHECK(is_right);
    CHECK(hits[ray].gradient_lower[2] <= 1.0);
    CHECK(hits[ray].gradient_upper[2] >= 1.0);
    closest = std::max(closest, 1.0 - (hits[ray].upper - hits[ray].lower));
  }
  CHECK_APPROACH("T-155", closest, 0.99);
}

TEST_CASE("along rays a function is where its enclosure says") {
  double largest = 0.0;
  for (const char* name : {"octahedron", "sphere_cut_sdf_relu", "torus_sdf_softplus", "siren"}) {
    CAPTURE(name);
    const Graph graph = std::string(name) == "octahedron" ? octahedron() : bundled(name);
    const RegionEvaluator regions(graph);
    Rays pieces;
    pieces.dimension = 3;
    pieces.add(std::vector{-0.5, 0.25, 0.25}, std::vector{1.0, 0.0, 0.0}, 0.0, 1.0);  // over a kink of the octahedron
    const Rays random = random_rays(24, 6);
    std::mt19937_64 generator(7);
    for (std::size_t ray = 0; ray < random.size(); ++ray) {
      const double first = 2.0 * uniform(generator),
                   length = std::ldexp(uniform(generator), -static_cast<int>(ray % 24));
      pieces.add(std::span(random.origin).subspan(3 * ray, 3), std::span(random.direction).subspan(3 * ray, 3), first,
                 ray % 12 == 0 ? first : first + length);
    }
    const RayRanges ranges = regions.ranges_along(pieces);
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
      CHECK(std::isfinite(ranges.rest[piece]));
      for (int k = 0; k <= 4; ++k) {
        const double share = k / 4.0;
        const double t =
            std::min(pieces.first[piece] + share * (pieces.last[piece] - pieces.first[piece]), pieces.last[piece]);
        const Real off = at(graph, pieces, piece, t) - Real(ranges.middle[piece]) -
                         Real(ranges.tangent[piece]) * (Real(t) - Real(ranges.at[piece]));
        const bool is_right = abs(off) <= Real(ranges.rest[piece]);
        CHECK(is_right);
        if (ranges.rest[piece] > 0.0)
          largest = std::max(largest, static_cast<double>(Real(abs(off) / ranges.rest[piece])));
      }
    }
  }
  CHECK_APPROACH("T-156", largest, 0.99);
}

TEST_CASE("rays ask for numbers that make sense") {
  const Octree tree = Octree::build(octahedron(), depth_of(2));
  Rays rays;
  rays.dimension = 3;
  CHECK(first_hits(tree, rays).empty());
  CHECK_THROWS_AS(rays.add(std::vector{0.0}, std::vector{1.0}, 0.0, 1.0), InvalidArgument);
  const std::vector<double> origin = {0.0, 0.0, 0.0}, none = origin, along = {1.0, 0.0, 0.0};
  rays.add(origin, none, 0.0, 1.0);
  CHECK_THROWS_AS(first_hits(tree, rays), InvalidArgument);
  rays = {};
  rays.dimension = 3;
  rays.add(origin, along, 1.0, 0.0);
  CHECK_THROWS_AS(first_hits(tree, rays), InvalidArgument);
  rays.first[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(first_hits(tree, rays), InvalidArgument);
}
