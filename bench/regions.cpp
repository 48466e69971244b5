#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "analysis/render_report.hpp"
#include "bench/plain.hpp"
#include "bench/timing.hpp"
#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/region/octree.hpp"
#include "driftbound/region/range.hpp"
#include "driftbound/region/rays.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "tests/support/sign_points.hpp"

// What is certain over boxes, in trees and along rays, by one thread, against plain float32 evaluation by Eigen (as
// bench/signs.cpp has it) of as many points as there are cells, points or rays.

namespace {

using namespace driftbound;

struct Sizes {
  int depth;
  std::size_t points, most_cells, rays_per_side;
  int runs;
};

class Program {
public:
  Program(const bench::ScalarNetwork& network, const Sizes& sizes)
      : label_(network.label),
        sizes_(sizes),
        graph_(network.graph),
        target_(network.target),
        regions_(graph_, target_),
        tree_(Octree::build(graph_, target_, options())),
        points_(sign_points::uniform(sizes.points, regions_.dimension(), 1)),
        plain_(bench::fastest_plain(
            graph_, sign_points::uniform(std::min<std::size_t>(sizes.points, 1 << 17), regions_.dimension(), 1),
            regions_.dimension(), sizes.runs)) {}

  void time() {
    cells();
    trees();
    uniform_points();
    if (regions_.dimension() == 3) rays();
    certificates();
  }

private:
  OctreeOptions options() const {
    OctreeOptions options;
    options.depth = sizes_.depth;
    return options;
  }

  /// Against as many points as `count`.
  void print(const std::string& what, std::size_t count, const std::function<void()>& ours,
             const std::function<std::vector<bench::Fact>(const bench::Timing&)>& facts) {
    std::vector<double> points;
    while (points.size() < count * regions_.dimension())
      points.insert(points.end(), points_.begin(),
                    points_.begin() + static_cast<std::ptrdiff_t>(
                                          std::min(points_.size(), count * regions_.dimension() - points.size())));
    const bench::Timing timing = bench::medians(
        sizes_.runs, ours, [&] { plain_->run(points); }, bench::cpu_seconds_of);
    bench::print("regions", what + "/" + label_ + "/t1", plain_->name(), timing, 1, facts(timing));
  }

  void cells() {
    Boxes boxes;
    boxes.dimension = regions_.dimension();
    tree_.each_cell([&](const OctreeCell& cell) {
      if (cell.sign == RegionSign::unknown && boxes.size() < sizes_.most_cells)
        boxes.add(cell.box.lower, cell.box.upper);
    });
    print(
        "cells", boxes.size(), [&] { regions_.ranges(boxes); },
        [&](const bench::Timing& timing) -> std::vector<bench::Fact> {
          return {{"cells_per_second", std::round(static_cast<double>(boxes.size()) / timing.ours)}};
        });
  }

  void trees() {
    const OctreeCounts counts = tree_.counts();
    const auto count = static_cast<double>(counts.cells);
    print(
        "octree", static_cast<std::size_t>(counts.cells), [&] { Octree::build(graph_, target_, options()); },
        [&](const bench::Timing& timing) -> std::vector<bench::Fact> {
          return {{"cells", count},
                  {"cells_per_second", std::round(count / timing.ours)},
                  {"certain_share", counts.certain_share}};
        });
  }

  void uniform_points() {
    const SignField field(graph_, target_);
    field.prepare();
    std::vector<PointSign> signs(sizes_.points);
    SignStatistics counts;
    const auto decide = [&] {
      counts = tree_.signs(field, points_.data(), static_cast<std::int64_t>(signs.size()),
                           static_cast<std::ptrdiff_t>(regions_.dimension()), 1, signs);
    };
    decide();
    print("uniform", sizes_.points, decide, [&](const bench::Timing&) -> std::vector<bench::Fact> {
      const auto& given = counts.stages[static_cast<std::size_t>(SignStage::given)];
      return {{"by_tree", static_cast<double>(given.decided) / static_cast<double>(sizes_.points)}};
    });
  }

  void rays() {
    analysis::View view;
    view.width = view.height = static_cast<std::int64_t>(sizes_.rays_per_side);
    view.eye = {2.2, 1.4, 1.8};
    view.target = {0.0, 0.0, 0.0};
    view.up = {0.0, 1.0, 0.0};
    const Rays all = view.rays(tree_.domain());
    std::vector<RayHit> hits;
    print(
        "rays", all.size(), [&] { hits = first_hits(tree_, all); },
        [&](const bench::Timing& timing) -> std::vector<bench::Fact> {
          const auto of = [&](RayVerdict verdict) {
            return static_cast<double>(
                std::count_if(hits.begin(), hits.end(), [&](const RayHit& hit) { return hit.verdict == verdict; }));
          };
          return {{"rays_per_second", std::round(static_cast<double>(all.size()) / timing.ours)},
                  {"hits", of(RayVerdict::hit)},
                  {"undecided", of(RayVerdict::undecided)}};
        });
  }

  /// One bound of the rounding of float32 for a cell of half side 2^-6, against the bound of the point in its middle (sums in
  /// any order), and the time against that of the bound for a box.
  void certificates() {
    const std::size_t d = regions_.dimension();
    std::mt19937_64 generator(5);
    std::uniform_real_distribution<double> uniform(-0.9, 0.9);
    std::vector<Box> boxes, points;
    Boxes all;
    all.dimension = d;
    for (int i = 0; i < 64; ++i) {
      Box point;
      for (std::size_t j = 0; j < d; ++j) point.lower.push_back(static_cast<float>(uniform(generator)));
      point.upper = point.lower;
      Box box = point;
      for (std::size_t j = 0; j < d; ++j) {
        box.lower[j] -= 0x1p-6;
        box.upper[j] += 0x1p-6;
      }
      all.add(box.lower, box.upper);
      boxes.push_back(box);
      points.push_back(point);
    }
    RegionOptions tight;
    tight.symbols = 128;
    tight.refined_radii = 32;
    const RegionEvaluator certificates(graph_, target_, tight);
    const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
    const auto bound_of = [&](const Box& box) { return forward_error_bound(graph_, arithmetic, box, target_).error; };
    Ranges ranges;
    bench::Timing timing = bench::medians(
        sizes_.runs, [&] { ranges = certificates.ranges(all); },
        [&] {
          for (std::size_t i = 0; i < 4; ++i) bound_of(boxes[i]);
        },
        bench::cpu_seconds_of);
    timing.theirs *= static_cast<double>(boxes.size()) / 4.0;
    std::vector<double> shares;
    for (std::size_t i = 0; i < boxes.size(); ++i) shares.push_back(ranges.rounding[i] / bound_of(points[i]).value());
    std::nth_element(shares.begin(), shares.begin() + 32, shares.end());
    bench::print("regions", "certificate/" + label_ + "/t1", "forward_error_bound", timing, 1,
                 {{"over_bound_of_middle", shares[32]}});
  }

  std::string label_;
  Sizes sizes_;
  Graph graph_;
  Target target_;
  RegionEvaluator regions_;
  Octree tree_;
  std::vector<double> points_;
  std::unique_ptr<bench::Plain> plain_;
};

}  // namespace

/// bench_regions [--quick | NETWORK...]: bundled ones by name, others by file; none: bundled fields, and fox where
/// DRIFTBOUND_TEST_DATA says where it is.
int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names == std::vector<std::string>{"--quick"}) {
    Program(bench::ScalarNetwork("torus_sdf_softplus"), {4, 9000, 1000, 16, 1}).time();
    return 0;
  }
  if (names.empty()) {
    names = {"siren", "sphere_cut_sdf_relu", "torus_sdf_softplus", "oscillator_d4_w64"};
    const char* const data = std::getenv("DRIFTBOUND_TEST_DATA");
    const std::string fox = std::string(data == nullptr ? "" : data) + "/neural-implicit-queries/fox.npz";
    if (data != nullptr && std::filesystem::exists(fox)) names.push_back(fox);
  }
  for (const std::string& name : names) Program(bench::ScalarNetwork(name), {7, 10'000'000, 1 << 17, 128, 3}).time();
}
