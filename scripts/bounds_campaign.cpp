// The recorded campaign of the bounds that speak of every run: docs/campaigns.md. Resumable: every unit of work appends
// one line to a file, and units that have theirs are not run again. Exit status 1 where a bound is violated.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "campaign_results.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "soundness/any_run_check.hpp"
#include "soundness/chosen_orders.hpp"
#include "soundness/every_run.hpp"
#include "soundness/foreign_runs.hpp"
#include "soundness/plain_network.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/worst_roundings.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::soundness;
using campaign::Json;
using campaign::Progress;
using campaign::Results;

const std::vector<std::string> declared_orders = {"sequential",     "sequential+fma", "pairwise",
                                                  "pairwise+fma",   "blocked:8",      "blocked:8+fma",
                                                  "blocked:32+fma", "split-k:4",      "split-k:2+fma"};
/// Those whose own bounds are computed.
const std::vector<std::string> bounded_orders = {"sequential", "pairwise", "blocked:8+fma"};
constexpr BoundKind any_order = BoundKind::adjoint_any_order;
constexpr BoundKind order_aware = BoundKind::adjoint_order_aware;
constexpr BoundKind rounded_shadow = BoundKind::rounded_shadow;
constexpr BoundKind replay = BoundKind::replay;
constexpr BoundKind statistical = BoundKind::adjoint_statistical;
/// Points, those with the largest bounds and those with the largest errors, at which worse runs are looked for.
constexpr std::size_t worst_points = 20;
/// How long, sum by sum, an order is looked for that is worse; and where it erred most, with that many seeds.
constexpr std::int64_t attempts = 20, attempts_again = 150;
constexpr std::uint64_t seeds = 40;
/// Those that speak of every run; the last is an estimate and gives no verdict.
const std::vector<BoundKind> of_every_run = {any_order, rounded_shadow, statistical};

struct Settings {
  std::filesystem::path results;
  std::vector<std::string> models;
  std::int64_t samples = 1000;
  std::int64_t random_cases = 0;  ///< a unit of random networks
  std::int64_t random_units = 0;
  std::uint64_t seed = 20261121;
};

using Tallies = std::map<std::string, BoundTally>;

Json json_of(const Tallies& tallies) {
  Json result = Json::object();
  for (const auto& [name, tally] : tallies)
    result[name] = {{"verdict", tally.gives_verdict},       {"checked", tally.checked},
                    {"violations", tally.violations},       {"undecided", tally.undecided},
                    {"without_bound", tally.without_bound}, {"utilisation", tally.max_utilisation}};
  return result;
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> remainder_shares(const TargetBound& bound) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < bound.values.size(); ++i)
    shares.push_back(bound.values[i] == 0.0 ? 0.0 : bound.remainder[i] / bound.values[i]);
  return shares;
}

/// What is measured of one network in one arithmetic, in every order.
class NetworkUnit {
public:
  /// is_plain: a network that PlainNetwork knows, at its usual scale, nothing flushed.
  NetworkUnit(const Graph& graph, Inputs inputs, ArithmeticModel arithmetic, bool is_plain, std::uint64_t seed,
              const Progress& progress)
      : check_(graph, std::move(inputs)),
        arithmetic_(std::move(arithmetic)),
        is_plain_(is_plain),
        seed_(seed),
        progress_(progress) {}

  Json run() {
    first_ = declared("sequential");
    first_.arithmetic.products_may_flush = arithmetic_.products_may_flush;
    every_ = check_.bounds_of(first_, {any_order, order_aware, rounded_shadow, statistical, BoundKind::shadow, replay});
    for (const std::string& order : declared_orders) in_declared_order(order);
    for (const ForeignRun& run : foreign_runs()) in_foreign_order(run);
    if (is_plain_) in_chosen_orders();
    if (is_plain_ && is_float32()) in_orders_by_sign();
    if (is_plain_ && is_float32()) with_worst_roundings();
    return summary();
  }

private:
  Trace declared(const std::string& order, std::int64_t batch = 0) const {
    RunOptions options;
    options.batch = batch;
    const ArithmeticModel model = cpu_arithmetic(arithmetic_.name, parse_summation_order(order));
    return cpu_evaluator(model).run(check_.graph(), check_.inputs(), options);
  }

  void in_declared_order(const std::string& order) {
    progress_.say(order);
    const bool is_first = order == declared_orders.front();
    const Trace run = is_first ? first_ : declared(order);
    count(run, order);
    const bool is_bounded = std::find(bounded_orders.begin(), bounded_orders.end(), order) != bounded_orders.end();
    if (arithmetic_.products_may_flush || !is_bounded) return;
    const RunBounds bounds = is_first ? every_ : check_.bounds_of(run, {order_aware, BoundKind::shadow, replay});
    const std::vector<TargetBound>& in_order = bounds.at(order_aware);
    const Trace in_batches = declared(order, 7);
    for (const BoundKind kind : {order_aware, replay})
      for (const Trace* of_order : {&run, &in_batches}) check_.hold(*of_order, bounds.at(kind), tally_of(kind));
    check_.hold(run, bounds.at(BoundKind::shadow), tally_of(BoundKind::shadow));
    const TargetBound& scalar = in_order[check_.scalar()];
    const double error = largest(check_.errors_of(run, check_.scalar()));
    known_order_.push_back({{"order", order},
                            {"largest_bound", largest(scalar.values)},
                            {"largest_error", error},
                            {"replay", largest(bounds.at(replay)[check_.scalar()].values) / error},
                            {"remainder_worst", largest(remainder_shares(scalar))},
                            {"remainder_median", median(remainder_shares(scalar))}});
    const double shadow = largest(bounds.at(BoundKind::shadow)[check_.scalar()].values);
    this_run_ = std::max(this_run_, shadow / error);
  }

  std::vector<ForeignRun> foreign_runs() const {
    std::vector<ForeignRun> runs;
    for (const ForeignProduct& product : library_products())
      for (const std::int64_t batch : {0, 1, 16}) runs.push_back({product, batch, seed_});
    for (std::uint64_t i = 0; i < 8; ++i) runs.push_back({permuted_product(seed_ + i), 0, seed_ + i});
    return runs;
  }

  void in_foreign_order(const ForeignRun& run) {
    progress_.say(run.product.name);
    count(foreign_run(check_.graph(), check_.inputs(), arithmetic_, run), run.product.name);
  }

  /// Legal orders too, but chosen by their terms: an error of its own beside that of the others.
  void in_orders_by_sign() {
    for (const ForeignProduct& product : products_by_sign()) {
      progress_.say(product.name);
      const Trace run = foreign_run(check_.graph(), check_.inputs(), arithmetic_, {product, 0, seed_});
      check_.hold(run, every_.at(any_order), tally_of(any_order));
      largest_error_by_sign_ = std::max(largest_error_by_sign_, largest(check_.errors_of(run, check_.scalar())));
    }
  }

  /// Orders chosen sum by sum so that the scalar errs, upwards and downwards; in narrow formats with many seeds where
  /// it errs most.
  void in_chosen_orders() {
    progress_.say("chosen orders");
    std::vector<std::size_t> points = largest_at(every_.at(speaks_best())[check_.scalar()].values);
    for (const std::size_t i : largest_at(check_.errors_of(first_, check_.scalar())))
      if (std::find(points.begin(), points.end(), i) == points.end()) points.push_back(i);
    std::size_t worst = points.front();
    double least = 0.0, worst_direction = 1.0;
    for (const double direction : {1.0, -1.0}) {
      const std::vector<double> errors = errors_in_chosen_orders(points, {target(), direction, attempts});
      const auto largest_of = std::max_element(errors.begin(), errors.end());
      if (*largest_of < least) continue;
      least = *largest_of;
      worst = points[static_cast<std::size_t>(largest_of - errors.begin())];
      worst_direction = direction;
    }
    for (std::uint64_t seed = 1; seed <= seeds && !is_float32(); ++seed)
      errors_in_chosen_orders({worst}, {target(), worst_direction, attempts_again, seed});
  }

  BoundTally& tally_of(BoundKind kind) { return tallies_[std::string(name_of(kind))]; }
  const Target& target() const { return check_.target(check_.scalar()); }

  std::vector<double> errors_in_chosen_orders(const std::vector<std::size_t>& points, const ChosenError& error) {
    const AnyRunCheck at_points(check_.graph(), inputs_at(points));
    const Trace run = run_in_chosen_orders(check_.graph(), at_points.inputs(), arithmetic_, error);
    for (const BoundKind kind : {any_order, rounded_shadow})
      if (every_.contains(kind))
        at_points.hold(run, bounds_at(points, kind), tallies_[fmt::format("chosen orders, {}", name_of(kind))]);
    const std::vector<double> errors = at_points.errors_of(run, check_.scalar());
    chosen_error_ = std::max(chosen_error_, largest(errors));
    return errors;
  }

  bool is_float32() const { return arithmetic_.input == arithmetic_.accumulator; }
  BoundKind speaks_best() const { return every_.contains(rounded_shadow) ? rounded_shadow : any_order; }

  /// Inputs in float32.
  Inputs inputs_at(const std::vector<std::size_t>& points) const {
    const auto& [name, tensor] = check_.inputs().tensors.front();
    const std::vector<double> all = tensor.to_double().values;
    Shape shape = tensor.shape();
    const std::size_t size = all.size() / static_cast<std::size_t>(shape.front());
    shape.front() = static_cast<std::int64_t>(points.size());
    std::vector<float> chosen;
    for (const std::size_t i : points)
      for (std::size_t k = i * size; k < (i + 1) * size; ++k) chosen.push_back(static_cast<float>(all[k]));
    Inputs inputs;
    inputs.tensors.emplace_back(name, StoredTensor::from(Tensor<float>(shape, std::move(chosen))));
    return inputs;
  }

  std::vector<TargetBound> bounds_at(const std::vector<std::size_t>& points, BoundKind kind) const {
    std::vector<TargetBound> bounds;
    for (const TargetBound& of_target : every_.at(kind)) {
      bounds.push_back({of_target.gives_verdict, {}, {}});
      for (const std::size_t i : points) bounds.back().values.push_back(of_target.values[i]);
    }
    return bounds;
  }

  static std::vector<std::size_t> largest_at(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] > values[j]; });
    order.resize(std::min(order.size(), worst_points));
    return order;
  }

  void with_worst_roundings() {
    progress_.say("worst roundings");
    const std::vector<double>& bounds = every_.at(any_order)[check_.scalar()].values;
    BoundTally tally;
    tally.gives_verdict = true;
    for (const std::size_t i : largest_at(bounds)) {
      const std::vector<double> point = inputs_at({i}).tensors.front().second.to_double().values;
      const double error = error_of_worst_roundings(check_.graph(), point, target(), 0x1p-24);
      judge(error, exact_ball(0.0), bounds[i], true, tally);
      worst_roundings_ = std::max(worst_roundings_, error);
    }
    tallies_["worst roundings"] = tally;
  }

  void count(const Trace& run, const std::string& order) {
    ++orders_;
    for (const BoundKind kind : of_every_run)
      if (every_.contains(kind)) check_.hold(run, every_.at(kind), tally_of(kind));
    const double error = largest(check_.errors_of(run, check_.scalar()));
    if (error > largest_error_) farthest_order_ = order;
    largest_error_ = std::max(largest_error_, error);
  }

  /// The largest bound over the largest error; null where there is no such bound.
  Json ratio_of(BoundKind kind) const {
    if (!every_.contains(kind)) return nullptr;
    return largest(every_.at(kind)[check_.scalar()].values) / largest_error_;
  }

  Json summary() const {
    const TargetBound& scalar = every_.at(any_order)[check_.scalar()];
    const std::vector<double> shares = remainder_shares(scalar);
    return {{"points", scalar.values.size()},
            {"orders", orders_},
            {"largest_error", largest_error_},
            {"farthest_order", farthest_order_},
            {"any_order", largest(scalar.values) / largest_error_},
            {"rounded_shadow", ratio_of(rounded_shadow)},
            {"statistical", ratio_of(statistical)},
            {"remainder_worst", largest(shares)},
            {"remainder_median", median(shares)},
            {"this_run", this_run_},
            {"largest_error_by_sign", largest_error_by_sign_},
            {"largest_error_chosen", chosen_error_},
            {"largest_bound", largest(every_.at(speaks_best())[check_.scalar()].values)},
            {"worst_roundings", worst_roundings_ / largest_error_},
            {"known_order", known_order_},
            {"bounds", json_of(tallies_)}};
  }

  AnyRunCheck check_;
  ArithmeticModel arithmetic_;
  bool is_plain_;
  std::uint64_t seed_;
  const Progress& progress_;
  Trace first_;
  RunBounds every_;
  Tallies tallies_;
  Json known_order_ = Json::array();
  std::int64_t orders_ = 0;
  double largest_error_ = 0.0, largest_error_by_sign_ = 0.0, chosen_error_ = 0.0;
  double this_run_ = 0.0, worst_roundings_ = 0.0;
  std::string farthest_order_;
};

/// Where the network was trained: the oscillating classifiers on a line, all others in a cube.
Inputs points_of(const Graph& graph, const std::string& name, std::int64_t samples, double scale) {
  InputGenerator generator;
  generator.samples = samples;
  if (name.starts_with("oscillator")) {
    generator.distribution = InputDistribution::segment;
    generator.domain = {{-0.2 * scale, 0.2 * scale}, {0.3 * scale, 0.3 * scale}, {-0.2 * scale, -0.2 * scale}};
  } else {
    generator.domain = {{-scale, scale}};
  }
  return generate_inputs(graph, generator);
}

struct NetworkKind {
  const char* arithmetic;
  bool flushes;
  double scale;
};

std::vector<NetworkKind> kinds() {
  return {{"fp32", false, 1.0},     {"tf32", false, 1.0},    {"bf16", false, 1.0},
          {"fp16", false, 1.0},     {"fp32", true, 1.0},     {"bf16", true, 1.0},
          {"fp32", false, 0x1p-20}, {"fp32", false, 0x1p10}, {"fp32", false, 0x1p-140}};
}

void run_networks(const Settings& settings, Results& results, const Progress& progress) {
  for (const NetworkKind& kind : kinds()) {
    for (const std::string& file : settings.models) {
      const std::string name = std::filesystem::path(file).stem().string();
      const std::string unit =
          fmt::format("{} {}{} x{:g}", name, kind.arithmetic, kind.flushes ? "+flush" : "", kind.scale);
      if (results.has(unit)) continue;
      progress.say(unit);
      const auto start = std::chrono::steady_clock::now();
      const Graph graph = load_model(file);
      ArithmeticModel arithmetic = cpu_arithmetic(kind.arithmetic, {});
      arithmetic.products_may_flush = kind.flushes;
      const bool is_usual = kind.scale == 1.0 && !kind.flushes;
      const std::int64_t samples = is_usual ? settings.samples : settings.samples / 5;
      Json line = {{"unit", unit}, {"network", name}, {"arithmetic", kind.arithmetic}};
      line.update(NetworkUnit(graph, points_of(graph, name, samples, kind.scale), arithmetic,
                              is_usual && is_plain_network(graph), settings.seed, progress)
                      .run());
      line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      results.add(std::move(line));
    }
  }
}

void run_random(const Settings& settings, Results& results, const Progress& progress) {
  for (std::int64_t number = 0; number < settings.random_units; ++number) {
    const std::string unit = fmt::format("random {} ({} cases)", number, settings.random_cases);
    if (results.has(unit)) continue;
    const auto start = std::chrono::steady_clock::now();
    Random random(settings.seed + static_cast<std::uint64_t>(number));
    Tally tally;
    for (std::size_t i = 0; i < static_cast<std::size_t>(settings.random_cases); ++i) {
      progress.say(fmt::format("{}: {}", unit, i));
      const Family family = all_families()[i % all_families().size()];
      check_every_run(random_case(family, random.bits()), random, {}, tally);
    }
    for (const std::string& failure : tally.failures) fmt::print(stderr, "FAILURE {}\n", failure);
    Json line = {
        {"unit", unit}, {"cases", tally.cases}, {"failures", tally.failures.size()}, {"bounds", json_of(tally.bounds)}};
    line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    results.add(std::move(line));
  }
}

double extreme_ratio(const Json& known_order, bool is_largest) {
  double found = is_largest ? 0.0 : HUGE_VAL;
  for (const Json& of_order : known_order) {
    const double ratio = of_order.at("largest_bound").get<double>() / of_order.at("largest_error").get<double>();
    found = is_largest ? std::max(found, ratio) : std::min(found, ratio);
  }
  return found;
}

double worst_replay(const Json& known_order) {
  double worst = 0.0;
  for (const Json& of_order : known_order) worst = std::max(worst, of_order.value("replay", 0.0));
  return worst;
}

std::string percent(double share) {
  return share < 1e-6 ? "0" : fmt::format("{:.2g} %", 100.0 * share);
}

std::string ratio(const Json& of_bound) {
  return of_bound.is_null() ? "-" : fmt::format("{:.3g}", of_bound.get<double>());
}

void print_networks(const Results& results) {
  fmt::print(
      "| network | points, orders | largest error | any order | remainder: worst, median | rounded-shadow | "
      "statistical | "
      "known order: sequential, best, worst | over the largest error of any order | remainder: worst, median | replay, "
      "worst | this run "
      "|\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const Json& line : results.lines()) {
    if (!line.contains("network")) continue;
    fmt::print("| {} | {}, {} | {:.2g} | {:.0f} | {}, {} | {} | {} |", line.at("unit").get<std::string>(),
               line.at("points").dump(), line.at("orders").dump(), line.at("largest_error").get<double>(),
               line.at("any_order").get<double>(), percent(line.at("remainder_worst").get<double>()),
               percent(line.at("remainder_median").get<double>()), ratio(line.at("rounded_shadow")),
               ratio(line.at("statistical")));
    const Json& known = line.at("known_order");
    if (known.empty()) {
      fmt::print(" - | - | - | - | - |\n");
      continue;
    }
    const Json& sequential = known.front();
    const double bound = sequential.at("largest_bound").get<double>();
    fmt::print(" {:.0f}, {:.0f}, {:.0f} | {:.0f} | {}, {} | {:.6f} | {:.6f} |\n",
               bound / sequential.at("largest_error").get<double>(), extreme_ratio(known, false),
               extreme_ratio(known, true), bound / line.at("largest_error").get<double>(),
               percent(sequential.at("remainder_worst").get<double>()),
               percent(sequential.at("remainder_median").get<double>()), worst_replay(known),
               line.at("this_run").get<double>());
  }
}

/// How much less the largest bound of every run could be at the most: over errors of runs that are looked for.
void print_worse_orders(const Results& results) {
  fmt::print("\n| network | largest bound | largest error, by sign, chosen orders | over it |\n|---|--:|--:|--:|\n");
  for (const Json& line : results.lines()) {
    if (line.value("largest_error_chosen", 0.0) == 0.0) continue;
    if (line.at("largest_bound").is_null()) continue;  // infinite
    const double bound = line.at("largest_bound").get<double>(), usual = line.at("largest_error").get<double>(),
                 by_sign = line.at("largest_error_by_sign").get<double>(),
                 chosen = line.at("largest_error_chosen").get<double>();
    fmt::print("| {} | {:.3g} | {:.3g}, {}, {:.3g} | {:.3g} |\n", line.at("unit").get<std::string>(), bound, usual,
               by_sign == 0.0 ? "-" : fmt::format("{:.3g}", by_sign), chosen,
               bound / std::max({usual, by_sign, chosen}));
  }
}

/// Whether nothing is violated.
bool print_bounds(const Results& results) {
  std::map<std::string, std::vector<double>> sums;
  std::int64_t checked = 0, violations = 0, failures = 0;
  for (const Json& line : results.lines()) {
    failures += line.value("failures", std::int64_t{0});
    for (const auto& [name, of_name] : line.at("bounds").items()) {
      std::vector<double>& sum = sums[line.contains("network") ? "trained, " + name : name];
      sum.resize(5);
      for (std::size_t i = 0; const char* field : {"checked", "violations", "undecided", "without_bound"})
        sum[i++] += of_name.at(field).get<double>();
      sum[4] = std::max(sum[4], of_name.at("utilisation").get<double>());
      if (!of_name.at("verdict").get<bool>()) continue;
      checked += of_name.at("checked").get<std::int64_t>();
      violations += of_name.at("violations").get<std::int64_t>();
    }
  }
  fmt::print(
      "\n| bound | checked | violations | undecided | no bound | largest utilisation |\n|---|--:|--:|--:|--:|--:|\n");
  for (const auto& [name, sum] : sums)
    fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.3f} |\n", name, sum[0], sum[1], sum[2], sum[3], sum[4]);
  fmt::print("\n{} checks of bounds that give a verdict, {} violations, {} failures.\n", checked, violations, failures);
  return violations == 0 && failures == 0;
}

}  // namespace

/// bounds_campaign RESULTS SAMPLES RANDOM_UNITS CASES SEED MODEL...
int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 5) {
    fmt::print(stderr, "usage: bounds_campaign RESULTS SAMPLES RANDOM_UNITS CASES SEED MODEL...\n");
    return 3;
  }
  Settings settings;
  settings.results = arguments[0];
  settings.samples = std::stoll(arguments[1]);
  settings.random_units = std::stoll(arguments[2]);
  settings.random_cases = std::stoll(arguments[3]);
  settings.seed = std::stoull(arguments[4], nullptr, 0);
  settings.models.assign(arguments.begin() + 5, arguments.end());
  Results results(settings.results);
  const Progress progress;
  run_networks(settings, results, progress);
  run_random(settings, results, progress);
  progress.say("");
  print_networks(results);
  print_worse_orders(results);
  return print_bounds(results) ? 0 : 1;
}
