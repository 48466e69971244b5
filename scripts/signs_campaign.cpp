// The recorded campaign of certified signs: docs/campaigns.md. Resumable: every unit of work appends one line to a
// file, and units that have theirs are not run again. Exit status 1 where a sign is wrong or a value beyond its bound.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "campaign_results.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/reference/reference.hpp"
#include "implicit/implicit_networks.hpp"
#include "support/mpfr_network.hpp"
#include "support/sign_points.hpp"

namespace {

using namespace driftbound;
using campaign::Json;
using campaign::Progress;
using campaign::Results;

constexpr double work_of_unit = 4e8;           ///< points times weights
constexpr std::size_t points_of_surface = 10;  ///< in a band, around each of the points bisected
constexpr std::size_t rows_at_once = 1000;
/// Of those that an early stage decided; of the others every one.
constexpr std::size_t one_by_oracle_of = 50;
constexpr int mpfr_bits = 320;

struct Kind {
  std::string name;
  std::optional<double> width;
};
const std::vector<Kind> kinds = {
    {"uniform", {}}, {"band 1e-2", 1e-2}, {"band 1e-4", 1e-4}, {"band 1e-6", 1e-6}, {"surface", {}}};

/// Hardest: decided in double-double or MPFR. Unknown: the oracle found no sign either.
const std::vector<std::string> counted = {"points",         "wrong",          "outside",          "undecided",
                                          "zeros",          "float32_domain", "float64_domain",   "float64_point",
                                          "double_double",  "multiprecision", "by_double_double", "by_mpfr",
                                          "exact_hardest",  "exact_float32",  "exact_others",     "oracle_hardest",
                                          "oracle_float32", "oracle_others",  "unknown"};
using Counts = std::map<std::string, std::int64_t>;

/// The seed of a unit of work by its own name: FNV-1a, then mixed.
std::uint64_t seed_of(const std::string& unit) {
  std::uint64_t x = 0xcbf29ce484222325U;
  for (const char c : unit) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// One network: its signs, and two other ways to them.
class Program {
public:
  explicit Program(const std::string& file)
      : name_(std::filesystem::path(file).stem().string()),
        field_(load_model(file), implicit_networks::scalar_of(name_)),
        maker_(field_.graph()),
        oracle_(field_.graph(), field_.target()) {
    std::size_t weights = 0;
    for (ValueId id = 0; id < field_.graph().values.size(); ++id)
      if (field_.graph().is_constant(id)) weights += field_.graph().value(id).constant.to_double().size();
    rows_ = static_cast<std::size_t>(std::clamp(work_of_unit / static_cast<double>(weights), 1000.0, 50000.0));
    field_.prepare();
  }

  const std::string& name() const { return name_; }

  std::vector<double> points(const Kind& kind, std::uint64_t seed) const {
    if (kind.name == "uniform") return sign_points::uniform(rows_, field_.dimension(), seed);
    const std::size_t surface_rows = rows_ / points_of_surface;
    if (!kind.width) return sign_points::bisected(field_, surface_rows, seed);
    const std::vector<double> surface = sign_points::bisected(field_, surface_rows, seed, 36);
    std::vector<double> repeated;
    for (std::size_t i = 0; i < points_of_surface; ++i) repeated.insert(repeated.end(), surface.begin(), surface.end());
    return sign_points::band(std::move(repeated), *kind.width, seed);
  }

  Counts check(const std::vector<double>& points) {
    Counts counts;
    for (const std::string& name : counted) counts[name] = 0;
    const std::size_t d = field_.dimension(), rows = points.size() / d;
    for (std::size_t first = 0; first < rows; first += rows_at_once) {
      const auto from = points.begin() + static_cast<std::ptrdiff_t>(first * d);
      const auto to = points.begin() + static_cast<std::ptrdiff_t>(std::min(rows, first + rows_at_once) * d);
      check_part({from, to}, counts);
    }
    return counts;
  }

private:
  void check_part(const std::vector<double>& points, Counts& counts) {
    const std::size_t d = field_.dimension();
    const std::vector<PointSign> signs = sign_points::signs_of(field_, points);
    const std::vector<Ball> balls = reference(points, 106);
    std::vector<std::size_t> open;
    std::vector<double> open_points;
    for (std::size_t row = 0; row < signs.size(); ++row) {
      count(signs[row], counts);
      compare(signs[row], balls[row], counts);
      if (is_settled(balls[row])) ++counts["by_double_double"];
      const auto at = points.begin() + static_cast<std::ptrdiff_t>(row * d);
      if (!is_settled(balls[row])) {
        open.push_back(row);
        open_points.insert(open_points.end(), at, at + static_cast<std::ptrdiff_t>(d));
      }
    }
    std::vector<bool> is_open(signs.size(), false);
    if (!open.empty()) {
      const std::vector<Ball> finer = reference(open_points, mpfr_bits);
      for (std::size_t i = 0; i < open.size(); ++i) {
        compare(signs[open[i]], finer[i], counts);
        is_open[open[i]] = !is_settled(finer[i]);
        if (is_settled(finer[i])) ++counts["by_mpfr"];
      }
    }
    for (std::size_t row = 0; row < signs.size(); ++row) {
      const bool is_hardest = is_open[row] || signs[row].stage >= SignStage::double_double;
      if (is_hardest || row % one_by_oracle_of == 0)
        check_by_oracle(signs[row], is_hardest, std::span(points).subspan(row * d, d), counts);
    }
  }

  /// Balls of f; 106 bits: double-double.
  std::vector<Ball> reference(const std::vector<double>& points, int bits) const {
    const Graph& graph = field_.graph();
    const auto d = static_cast<std::int64_t>(field_.dimension());
    const auto rows = static_cast<std::int64_t>(points.size()) / d;
    const Inputs inputs{{{graph.value(graph.inputs[0]).name, StoredTensor::from(Tensor<double>({rows, d}, points))}}};
    PrecisionPolicy policy;
    policy.outputs_only = true;
    policy.initial_bits = bits == 106 ? 0 : bits;
    policy.max_bits = bits;
    policy.relative_radius = 0x1p-20;
    const std::vector<Ball> values = maker_.accumulated(inputs, policy).layers.back().values;
    const std::size_t outputs = values.size() / static_cast<std::size_t>(rows);
    const Target& target = field_.target();
    std::vector<Ball> scalars;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      scalars.push_back(values[row * outputs + static_cast<std::size_t>(target.positive.element)]);
      if (target.negative)
        scalars.back() = scalars.back() - values[row * outputs + static_cast<std::size_t>(target.negative->element)];
    }
    return scalars;
  }

  static bool is_settled(const Ball& exact) {
    const Interval range = exact.enclosure();
    return range.upper() < 0.0 || range.lower() > 0.0;
  }

  static void count(const PointSign& sign, Counts& counts) {
    ++counts["points"];
    if (sign.sign == Sign::zero) ++counts["zeros"];
    if (sign.sign == Sign::undecided) ++counts["undecided"];
    static constexpr std::array<const char*, 5> names = {"float32_domain", "float64_domain", "float64_point",
                                                         "double_double", "multiprecision"};
    if (sign.stage <= SignStage::multiprecision) ++counts[names[static_cast<std::size_t>(sign.stage)]];
  }

  static void compare(const PointSign& sign, const Ball& exact, Counts& counts) {
    const Interval range = exact.enclosure();
    const bool holds = (sign.sign == Sign::positive && range.upper() > 0.0) ||
                       (sign.sign == Sign::negative && range.lower() < 0.0) ||
                       (sign.sign == Sign::zero && range.contains(0.0)) || sign.sign == Sign::undecided;
    if (!holds) ++counts["wrong"];
    if (!(error_of(sign.value, exact).lower() <= sign.bound)) ++counts["outside"];
  }

  void check_by_oracle(const PointSign& sign, bool is_hardest, std::span<const double> point, Counts& counts) {
    const mpfr_network::Scalar exact = oracle_.at(point);
    const char* const of = sign.stage == SignStage::float32_domain ? "_float32" : "_others";
    ++counts[std::string(oracle_.is_piecewise_linear() ? "exact" : "oracle") + (is_hardest ? "_hardest" : of)];
    if (exact.is_beyond(sign.value, sign.bound)) ++counts["outside"];
    if (!exact.sign())
      ++counts["unknown"];
    else if (sign.sign != Sign::undecided && *exact.sign() != static_cast<int>(sign.sign))
      ++counts["wrong"];
  }

  std::string name_;
  SignField field_;
  ReferenceMaker maker_;
  mpfr_network::Program oracle_;
  std::size_t rows_ = 0;
};

void run(const std::vector<std::string>& files, std::int64_t rounds, std::uint64_t seed, Results& results) {
  const Progress progress;
  std::map<std::string, Program> networks;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (const std::string& file : files) {
      for (const Kind& kind : kinds) {
        const std::string name = std::filesystem::path(file).stem().string();
        const std::string unit = fmt::format("{}, {}, round {}, seed {}", name, kind.name, round, seed);
        if (results.has(unit)) continue;
        progress.say(unit);
        const auto start = std::chrono::steady_clock::now();
        Program& program = networks.try_emplace(file, file).first->second;
        Json line = {{"unit", unit}, {"network", name}, {"kind", kind.name}};
        for (const auto& [what, number] : program.check(program.points(kind, seed_of(unit)))) line[what] = number;
        line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        results.add(line);
      }
    }
  }
}

void print_row(const std::string& program, const std::string& kind, const Counts& counts) {
  std::string row = fmt::format("| {} | {} |", program, kind);
  for (const std::string& name : counted) row += fmt::format(" {} |", counts.at(name));
  fmt::print("{}\n", row);
}

/// Whether no sign is wrong, no value beyond its bound, and the oracle knew all that it was asked.
bool print_table(const Results& results) {
  std::map<std::pair<std::string, std::string>, Counts> sums;
  for (const Json& line : results.lines()) {
    const auto program = line.at("network").get<std::string>(), kind = line.at("kind").get<std::string>();
    for (const auto& [n, k] :
         {std::pair(program, kind), std::pair(program, std::string("all")), std::pair(std::string("~all"), kind),
          std::pair(std::string("~all"), std::string("all"))})
      for (const std::string& name : counted) sums[{n, k}][name] += line.at(name).get<std::int64_t>();
  }
  std::string head = "| network | kind |", rule = "|---|---|";
  for (const std::string& name : counted) {
    head += " " + name + " |";
    rule += "--:|";
  }
  fmt::print("{}\n{}\n", head, rule);
  for (const auto& [key, counts] : sums) print_row(key.first == "~all" ? "all" : key.first, key.second, counts);
  const Counts& all = sums[{"~all", "all"}];
  return !all.empty() && all.at("wrong") == 0 && all.at("outside") == 0 && all.at("unknown") == 0;
}

}  // namespace

/// signs_campaign RESULTS ROUNDS SEED MODEL...
int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: signs_campaign RESULTS ROUNDS SEED MODEL...\n");
    return 3;
  }
  try {
    Results results(argv[1]);
    run({argv + 4, argv + argc}, std::atoll(argv[2]), std::strtoull(argv[3], nullptr, 0), results);
    return print_table(results) ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
