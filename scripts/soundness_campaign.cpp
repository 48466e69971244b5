// The recorded soundness campaign: docs/campaigns.md. Prints a Markdown summary; exit status 1 on any failure.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "soundness/box_check.hpp"
#include "soundness/bundled.hpp"
#include "soundness/foreign_sums.hpp"
#include "soundness/hill_climb.hpp"
#include "soundness/matrix_unit_networks.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/random_ops.hpp"
#include "soundness/soundness_check.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::soundness;

using Task = std::function<void(Tally&)>;

/// Runs tasks on a few threads; tallies are merged in the order of the tasks, so that the result does
/// not depend on the threads.
Tally run_all(const std::vector<Task>& tasks, int threads) {
  std::vector<Tally> tallies(tasks.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&] {
      for (std::size_t task = next++; task < tasks.size(); task = next++) tasks[task](tallies[task]);
    });
  for (std::thread& worker : workers) worker.join();
  Tally all;
  for (const Tally& tally : tallies) all.merge(tally);
  return all;
}

struct Section {
  std::string name;
  Tally tally;
};

struct Campaign {
  std::int64_t outputs = 2'000'000;
  std::uint64_t seed = 20261121;
  int threads = 2;
  double BoundTally::*utilisation = &BoundTally::max_utilisation_of_sums;
  std::vector<Section> sections;

  void finish(std::string name, Tally tally) {
    std::fputs(table_row(name, tally, utilisation).c_str(), stdout);
    std::fflush(stdout);
    sections.push_back({std::move(name), std::move(tally)});
  }

  /// Repeats rounds of tasks until the tally counts as many as wanted.
  template <class Count>
  void repeat_until(const std::string& name, std::int64_t wanted, const Count& count,
                    const std::function<Task(std::uint64_t)>& task_for_seed) {
    Random seeds(seed + sections.size());
    Tally tally;
    while (count(tally) < wanted && tally.failures.size() < 10) {
      std::vector<Task> round;
      for (int i = 0; i < 64; ++i) round.push_back(task_for_seed(seeds.bits()));
      tally.merge(run_all(round, threads));
    }
    finish(name, std::move(tally));
  }

  void repeat(const std::string& name, std::int64_t wanted, const std::function<Task(std::uint64_t)>& task_for_seed) {
    const auto outputs_of = [](const Tally& tally) { return tally.outputs; };
    repeat_until(name, wanted, outputs_of, task_for_seed);
  }
};

void check_case(Family family, std::uint64_t seed, Tally& tally) {
  const Case the_case = random_case(family, seed);
  check_run(
      the_case.graph, [&] { return evaluate(the_case); }, [&] { return describe(the_case); }, {}, tally);
}

void check_op_case(OpFamily family, std::uint64_t seed, Tally& tally) {
  const Case the_case = random_op_case(family, seed);
  check_run(
      the_case.graph, [&] { return evaluate(the_case); }, [&] { return describe(the_case); }, {}, tally);
}

/// Boxes and signs around a sample of a network and of a chain of ops, which are those of the seed.
void check_boxes(std::uint64_t seed, Tally& tally) {
  Random random(seed);
  const Family data = random.pick(all_families());
  const OpFamily ops = random.pick(all_op_families());
  const Case network = random_case(data, random.bits()), chain = random_op_case(ops, random.bits());
  for (const Case* the_case : {&network, &chain}) {
    check_box(*the_case, random.bits(), tally);
    check_signs(*the_case, random.bits(), tally);
  }
}

void check_foreign_sum(std::uint64_t seed, Tally& tally) {
  const ForeignSum sum = random_foreign_sum(seed);
  check_run(
      sum.graph, [&] { return sum.trace; }, [&] { return sum.description; }, {}, tally);
}

void run_random_networks(Campaign& campaign) {
  const auto families = static_cast<std::int64_t>(all_families().size());
  for (const Family family : all_families())
    campaign.repeat(
        std::string(family_name(family)), campaign.outputs * 7 / 10 / families,
        [family](std::uint64_t seed) -> Task { return [=](Tally& tally) { check_case(family, seed, tally); }; });
}

void run_foreign_sums(Campaign& campaign) {
  campaign.repeat("foreign sums", campaign.outputs / 10,
                  [](std::uint64_t seed) -> Task { return [=](Tally& tally) { check_foreign_sum(seed, tally); }; });
}

void run_unit_networks(Campaign& campaign) {
  campaign.repeat("matrix units", campaign.outputs / 5, [](std::uint64_t seed) -> Task {
    return [=](Tally& tally) { check_unit_network(random_unit_network(seed), {}, tally); };
  });
}

void run_boxes(Campaign& campaign) {
  campaign.repeat("boxes and signs", campaign.outputs / 5,
                  [](std::uint64_t seed) -> Task { return [=](Tally& tally) { check_boxes(seed, tally); }; });
}

template <class AnyFamily>
std::optional<AnyFamily> named(const std::vector<AnyFamily>& families, const std::string& name) {
  for (const AnyFamily family : families)
    if (family_name(family) == name) return family;
  return std::nullopt;
}

/// "--ops" asks for all families, "--ops=FAMILY" for one.
std::vector<OpFamily> asked_families(const std::string& argument) {
  if (argument == "--ops") return all_op_families();
  const auto family = named(all_op_families(), argument.substr(std::string("--ops=").size()));
  return family ? std::vector<OpFamily>{*family} : std::vector<OpFamily>{};
}

void run_op_families(Campaign& campaign, const std::vector<OpFamily>& families) {
  campaign.utilisation = &BoundTally::max_utilisation;
  const auto judged = [](const Tally& tally) { return tally.judged_outputs(); };
  for (const OpFamily family : families)
    campaign.repeat_until(
        std::string(family_name(family)), campaign.outputs / 2, judged,
        [family](std::uint64_t seed) -> Task { return [=](Tally& tally) { check_op_case(family, seed, tally); }; });
}

void run_bundled(Campaign& campaign, const std::string& folder) {
  Random random(campaign.seed);
  std::vector<Task> tasks;
  const std::int64_t samples = std::max<std::int64_t>(1, campaign.outputs / 100'000);
  for (const auto& file : models_in(folder))
    for (const char* name : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
      const ArithmeticModel arithmetic = cpu_arithmetic(name, random_arithmetic(random).order);
      const std::uint64_t seed = random.bits();
      tasks.push_back([=](Tally& tally) { check_model(file, arithmetic, samples, seed, {}, tally); });
    }
  campaign.finish("bundled networks", run_all(tasks, campaign.threads));
}

void run_hill_climbs(Campaign& campaign) {
  Random random(campaign.seed);
  std::vector<Task> tasks;
  const auto generations = static_cast<int>(std::max<std::int64_t>(10, campaign.outputs / 10'000));
  for (const BoundKind bound : {BoundKind::componentwise, BoundKind::order_aware})
    for (const char* arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"})
      for (const char* order : {"sequential", "sequential+fma", "pairwise", "blocked:2", "split-k:2+fma"})
        for (const std::int64_t n : {2, 4, 8}) {
          const ArithmeticModel model = cpu_arithmetic(arithmetic, parse_summation_order(order));
          const std::uint64_t seed = random.bits();
          tasks.push_back([=](Tally& tally) {
            const Approach found = hill_climb(model, n, bound, seed, generations, {}, tally);
            std::fputs(
                fmt::format("{} {} {} n = {}: {}\n", name_of(bound), arithmetic, order, n, to_string(found)).c_str(),
                stderr);
          });
        }
  campaign.finish("hill climbs", run_all(tasks, campaign.threads));
}

int summarise(const Campaign& campaign, double seconds) {
  Tally all;
  for (const Section& section : campaign.sections) all.merge(section.tally);
  fmt::print("{}\n{}\nSeed {}, {} threads, {:.0f} s.\n", table_row("**all**", all, campaign.utilisation),
             bound_table(all), campaign.seed, campaign.threads, seconds);
  for (const std::string& failure : all.failures) fmt::print("\nFAILURE\n{}\n", failure);
  return all.failures.empty() && all.violations() == 0 ? 0 : 1;
}

/// One case again, with everything said about it.
int replay(const std::string& family, std::uint64_t seed) {
  Tally tally;
  if (family == "foreign") {
    check_foreign_sum(seed, tally);
  } else if (family == "unit") {
    check_unit_network(random_unit_network(seed), {}, tally);
  } else if (family == "boxes") {
    check_boxes(seed, tally);
  } else if (const auto data = named(all_families(), family)) {
    fmt::print("{}\n", describe(random_case(*data, seed)));
    check_case(*data, seed, tally);
  } else if (const auto ops = named(all_op_families(), family)) {
    fmt::print("{}\n", describe(random_op_case(*ops, seed)));
    check_op_case(*ops, seed, tally);
  } else {
    fmt::print(stderr, "there is no family '{}'\n", family);
    return 3;
  }
  fmt::print("{}{}\n{}", table_heading(), table_row(family, tally), bound_table(tally));
  for (const std::string& failure : tally.failures) fmt::print("\nFAILURE\n{}\n", failure);
  return tally.failures.empty() ? 0 : 1;
}

}  // namespace

/// soundness_campaign MODELS|--ops[=FAMILY] [OUTPUTS [SEED [THREADS]]]
/// soundness_campaign --case FAMILY|foreign|unit|boxes SEED
int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "--case")
    return replay(arguments[1], std::stoull(arguments[2], nullptr, 0));
  if (arguments.empty()) {
    fmt::print(stderr,
               "usage: soundness_campaign MODELS|--ops[=FAMILY] [OUTPUTS [SEED [THREADS]]] | --case "
               "FAMILY|foreign|unit|boxes SEED\n");
    return 3;
  }
  Campaign campaign;
  if (arguments.size() > 1) campaign.outputs = std::stoll(arguments[1]);
  if (arguments.size() > 2) campaign.seed = std::stoull(arguments[2], nullptr, 0);
  if (arguments.size() > 3) campaign.threads = std::stoi(arguments[3]);

  const auto start = std::chrono::steady_clock::now();
  std::fputs(table_heading().c_str(), stdout);
  if (arguments[0].rfind("--ops", 0) == 0) {
    const std::vector<OpFamily> families = asked_families(arguments[0]);
    if (families.empty()) {
      fmt::print(stderr, "there is no family of ops for '{}'\n", arguments[0]);
      return 3;
    }
    run_op_families(campaign, families);
  } else {
    run_random_networks(campaign);
    run_foreign_sums(campaign);
    run_unit_networks(campaign);
    run_boxes(campaign);
    run_bundled(campaign, arguments[0]);
    run_hill_climbs(campaign);
  }
  return summarise(campaign, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}
