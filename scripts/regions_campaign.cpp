// The recorded campaign of ranges over boxes and of first hits of rays: docs/campaigns.md. Resumable: every unit of work
// appends one line to a file, and units that have theirs are not run again. Exit status 1 where something is wrong.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "campaign_results.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/reference/reference.hpp"
#include "driftbound/region/range.hpp"
#include "driftbound/region/rays.hpp"
#include "implicit/implicit_networks.hpp"

namespace {

using namespace driftbound;
using campaign::Json;
using campaign::Progress;
using campaign::Results;

constexpr std::int64_t boxes_of_unit = 100, rays_of_unit = 10'000;
constexpr std::size_t points_of_box = 1000, points_of_ray = 16;
constexpr int depth_of_tree = 6;

const std::vector<std::string> counted = {
    "boxes", "points", "quotients", "wrong_value",    "wrong_sign",    "wrong_gradient",  "wrong_rounding", "rays",
    "hits",  "misses", "undecided", "points_on_rays", "wrong_verdict", "unclear_verdict", "unknown"};
using Counts = std::map<std::string, std::int64_t>;

double uniform(std::mt19937_64& generator) {
  return std::ldexp(static_cast<double>(generator() >> 11U), -53);
}

double nearest_float(double x) {
  return static_cast<double>(static_cast<float>(x));
}

class Program {
public:
  explicit Program(const std::string& file)
      : name_(std::filesystem::path(file).stem().string()),
        graph_(load_model(file)),
        target_(implicit_networks::scalar_of(name_)),
        regions_(graph_, target_),
        field_(graph_, target_),
        maker_(graph_),
        evaluator_(cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential")))) {}

  std::size_t dimension() const { return regions_.dimension(); }

  Counts check_boxes(std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    Counts counts;
    const std::size_t d = dimension();
    Boxes boxes;
    boxes.dimension = d;
    for (std::int64_t i = 0; i < boxes_of_unit; ++i) {
      const double half = std::ldexp(1.0, -2 - static_cast<int>(generator() % 9));
      std::vector<double> lower, upper;
      for (std::size_t j = 0; j < d; ++j) {
        const double middle = 2.0 * uniform(generator) - 1.0, side = half * (0.5 + uniform(generator));
        lower.push_back(nearest_float(middle - side));
        upper.push_back(nearest_float(middle + side));
      }
      boxes.add(lower, upper);
    }
    const Ranges ranges = regions_.ranges(boxes);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const auto bounds = [&](const std::vector<double>& all) { return std::span(all).subspan(i * d, d); };
      check_box(bounds(boxes.lower), bounds(boxes.upper), ranges.at(i), generator, counts);
    }
    return counts;
  }

  Counts check_rays(std::uint64_t seed) {
    if (!tree_) {
      OctreeOptions options;
      options.depth = depth_of_tree;
      tree_ = Octree::build(graph_, target_, options);
      field_.prepare();
    }
    std::mt19937_64 generator(seed);
    const std::size_t d = dimension();
    Rays rays;
    rays.dimension = d;
    // Numbers of few bits, so that points of the rays are doubles.
    const auto coordinate = [&](double scale) {
      return std::ldexp(std::rint(scale * (uniform(generator) - 0.5)), -10);
    };
    for (std::int64_t i = 0; i < rays_of_unit; ++i) {
      std::vector<double> from, along;
      for (std::size_t j = 0; j < d; ++j) {
        from.push_back(coordinate(4096.0));
        along.push_back(coordinate(2048.0) - from.back());
      }
      along[0] += along[0] == 0.0 ? 0x1p-10 : 0.0;
      rays.add(from, along, 0.0, 3.0);
    }
    const std::vector<RayHit> hits = first_hits(*tree_, rays);
    Counts counts;
    counts["rays"] += rays_of_unit;
    std::vector<double> points;
    std::vector<std::size_t> of;  // ray of every point
    std::vector<bool> is_behind;  // or before the hit
    for (std::size_t ray = 0; ray < rays.size(); ++ray) {
      const RayHit& hit = hits[ray];
      ++counts[hit.verdict == RayVerdict::hit ? "hits" : hit.verdict == RayVerdict::miss ? "misses" : "undecided"];
      const double until = hit.verdict == RayVerdict::miss ? rays.last[ray] : hit.lower;
      const auto add = [&](double t, bool behind) {
        std::vector<double> point;
        bool is_inside = true;
        for (std::size_t j = 0; j < d; ++j) {
          point.push_back(rays.origin[ray * d + j] + t * rays.direction[ray * d + j]);
          is_inside = is_inside && std::fabs(point.back()) <= 1.0;
        }
        if (!is_inside) return;
        points.insert(points.end(), point.begin(), point.end());
        of.push_back(ray);
        is_behind.push_back(behind);
      };
      const auto grid = [](double t, double (*rounded)(double)) { return std::ldexp(rounded(std::ldexp(t, 30)), -30); };
      const auto down = [](double x) { return std::floor(x); };
      const auto up = [](double x) { return std::ceil(x); };
      for (std::size_t k = 0; k < points_of_ray; ++k) add(grid(until * uniform(generator), down), false);
      if (hit.verdict == RayVerdict::miss) continue;
      add(grid(until, down), false);
      if (hit.verdict == RayVerdict::hit) add(grid(hit.upper, up), true);
    }
    std::vector<PointSign> signs(of.size());
    field_.signs(points.data(), static_cast<std::int64_t>(signs.size()), static_cast<std::ptrdiff_t>(d), 1, signs);
    counts["points_on_rays"] += static_cast<std::int64_t>(signs.size());
    // Before a hit, and along a miss, f has one sign; behind a hit the other one.
    for (std::size_t i = 0; i < signs.size();) {
      bool has[3] = {};
      bool is_same_behind = false;
      std::size_t end = i;
      for (; end < signs.size() && of[end] == of[i]; ++end) {
        if (signs[end].sign == Sign::undecided) {
          ++counts["unknown"];
          continue;
        }
        const auto sign = static_cast<std::size_t>(static_cast<int>(signs[end].sign) + 1);
        if (is_behind[end])
          is_same_behind = has[sign];
        else
          has[sign] = true;
      }
      counts["wrong_verdict"] += (has[0] && has[2]) || has[1] ? 1 : 0;
      // A second crossing may lie between the hit and the next number of the grid.
      counts["unclear_verdict"] += is_same_behind ? 1 : 0;
      i = end;
    }
    return counts;
  }

private:
  /// Neighbours differ in one coordinate.
  std::vector<double> points_in(std::span<const double> lower, std::span<const double> upper,
                                std::mt19937_64& generator) const {
    const std::size_t d = lower.size();
    std::vector<double> points;
    const auto between = [&](std::size_t j, double share) {
      return std::clamp(nearest_float(lower[j] + share * (upper[j] - lower[j])), lower[j], upper[j]);
    };
    for (std::size_t pair = 0; pair < points_of_box / 2; ++pair) {
      std::vector<double> point;
      for (std::size_t j = 0; j < d; ++j) {
        const bool is_corner = pair < (std::size_t{1} << d);
        point.push_back(between(j, is_corner ? static_cast<double>(pair >> j & 1U) : uniform(generator)));
      }
      points.insert(points.end(), point.begin(), point.end());
      const std::size_t turned = pair % d;
      point[turned] = between(turned, uniform(generator));
      points.insert(points.end(), point.begin(), point.end());
    }
    return points;
  }

  /// The scalar of every row of an output that has `outputs` elements a row.
  template <class Number, class Values>
  std::vector<Number> scalars_of(const Values& values, std::size_t rows) const {
    const std::size_t outputs = values.size() / rows;
    std::vector<Number> scalars;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto at = [&](const OutputElement& element) {
        return Number(values[row * outputs + static_cast<std::size_t>(element.element)]);
      };
      scalars.push_back(target_.negative ? at(target_.positive) - at(*target_.negative) : at(target_.positive));
    }
    return scalars;
  }

  void check_box(std::span<const double> lower, std::span<const double> upper, const Range& range,
                 std::mt19937_64& generator, Counts& counts) {
    const auto d = static_cast<std::int64_t>(dimension());
    const std::vector<double> points = points_in(lower, upper, generator);
    const auto rows = static_cast<std::int64_t>(points.size()) / d;
    std::vector<float> floats(points.begin(), points.end());
    const Inputs inputs{{{graph_.value(graph_.inputs[0]).name, StoredTensor::from(Tensor<float>({rows, d}, floats))}}};
    PrecisionPolicy policy;
    policy.outputs_only = true;
    policy.initial_bits = 0;
    policy.max_bits = 106;
    policy.relative_radius = 0x1p-20;
    const std::vector<Ball> exact =
        scalars_of<Ball>(maker_.accumulated(inputs, policy).layers.back().values, static_cast<std::size_t>(rows));
    const Trace run = evaluator_.run(graph_, inputs);
    const std::vector<double> computed =
        scalars_of<double>(run.layers.back().output.to_double().values, static_cast<std::size_t>(rows));
    ++counts["boxes"];
    counts["points"] += rows;
    for (std::size_t row = 0; row < exact.size(); ++row) {
      const Interval value = exact[row].enclosure();
      counts["wrong_value"] += value.upper() < range.value.lower() || value.lower() > range.value.upper() ? 1 : 0;
      counts["wrong_sign"] += (range.sign == RegionSign::all_negative && value.lower() >= 0.0) ||
                                      (range.sign == RegionSign::all_positive && value.upper() <= 0.0)
                                  ? 1
                                  : 0;
      if (!target_.negative) {
        const double error = error_of(computed[row], exact[row]).lower();
        counts["wrong_rounding"] += error <= range.rounding ? 0 : 1;
      }
      if (row % 2 == 0) continue;
      const std::size_t turned = row / 2 % static_cast<std::size_t>(d), at = row * static_cast<std::size_t>(d) + turned;
      const double step = points[at] - points[at - static_cast<std::size_t>(d)];
      if (step == 0.0) continue;
      const Interval quotient = (value - exact[row - 1].enclosure()) / Interval(step);
      ++counts["quotients"];
      counts["wrong_gradient"] +=
          quotient.upper() < range.gradient[turned].lower() || quotient.lower() > range.gradient[turned].upper() ? 1
                                                                                                                 : 0;
    }
  }

  std::string name_;
  Graph graph_;
  Target target_;
  RegionEvaluator regions_;
  SignField field_;
  ReferenceMaker maker_;
  Evaluator evaluator_;
  std::optional<Octree> tree_;
};

void run(const std::vector<std::string>& files, std::int64_t boxes, std::int64_t rays, std::uint64_t seed,
         Results& results) {
  const Progress progress;
  std::map<std::string, Program> networks;
  for (std::int64_t round = 0; round * boxes_of_unit < boxes || round * rays_of_unit < rays; ++round) {
    for (const std::string& file : files) {
      Program& program = networks.try_emplace(file, file).first->second;
      for (const char* const kind : {"boxes", "rays"}) {
        const bool is_boxes = kind[0] == 'b';
        if (is_boxes ? round * boxes_of_unit >= boxes : round * rays_of_unit >= rays || program.dimension() > 3)
          continue;
        const std::string name = std::filesystem::path(file).stem().string();
        const std::string unit = fmt::format("{}, {}, round {}, seed {}", name, kind, round, seed);
        if (results.has(unit)) continue;
        progress.say(unit);
        const auto start = std::chrono::steady_clock::now();
        const auto number = seed + 1000003 * static_cast<std::uint64_t>(round);
        Json line = {{"unit", unit}, {"network", name}, {"kind", kind}};
        for (const auto& [what, count] : is_boxes ? program.check_boxes(number) : program.check_rays(number))
          line[what] = count;
        line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        results.add(line);
      }
    }
  }
}

/// Whether nothing is wrong.
bool print_table(const Results& results) {
  std::map<std::string, Counts> sums;
  for (const Json& line : results.lines())
    for (const std::string& program : {line.at("network").get<std::string>(), std::string("~all")})
      for (const std::string& name : counted) sums[program][name] += line.value(name, std::int64_t{0});
  std::string head = "| network |", rule = "|---|";
  for (const std::string& name : counted) {
    head += " " + name + " |";
    rule += "--:|";
  }
  fmt::print("{}\n{}\n", head, rule);
  for (const auto& [program, counts] : sums) {
    std::string row = fmt::format("| {} |", program == "~all" ? "all" : program);
    for (const std::string& name : counted) row += fmt::format(" {} |", counts.at(name));
    fmt::print("{}\n", row);
  }
  bool is_right = !sums["~all"].empty();
  for (const auto& [name, count] : sums["~all"]) is_right = is_right && !(name.starts_with("wrong") && count > 0);
  return is_right;
}

}  // namespace

/// regions_campaign RESULTS BOXES RAYS SEED MODEL...: boxes and rays of every network
int main(int argc, char** argv) {
  if (argc < 6) {
    fmt::print(stderr, "usage: regions_campaign RESULTS BOXES RAYS SEED MODEL...\n");
    return 3;
  }
  try {
    Results results(argv[1]);
    run({argv + 5, argv + argc}, std::atoll(argv[2]), std::atoll(argv[3]), std::strtoull(argv[4], nullptr, 0), results);
    return print_table(results) ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
