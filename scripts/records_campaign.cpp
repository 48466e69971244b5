// The campaign over recorded runs: docs/campaigns.md. Prints a Markdown summary; exit status 1 on any failure.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "soundness/random.hpp"
#include "soundness/random_records.hpp"

using namespace driftbound::soundness;

/// records_campaign [OUTPUTS [SEED [THREADS]]]
/// records_campaign --case SEED
int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  RecordsTally all;
  std::uint64_t seed = 20261129;
  int threads = 2;
  const auto start = std::chrono::steady_clock::now();
  if (arguments.size() == 2 && arguments[0] == "--case") {
    check_random_records(std::stoull(arguments[1], nullptr, 0), all);
  } else {
    const std::int64_t wanted = arguments.empty() ? 100'000 : std::stoll(arguments[0]);
    if (arguments.size() > 1) seed = std::stoull(arguments[1], nullptr, 0);
    if (arguments.size() > 2) threads = std::stoi(arguments[2]);
    constexpr int runs_a_round = 256;
    for (Random seeds(seed); all.tally.outputs < wanted && all.tally.failures.size() < 10;) {
      std::vector<std::uint64_t> round(runs_a_round);
      for (std::uint64_t& one : round) one = seeds.bits();
      std::vector<RecordsTally> tallies(round.size());
      std::atomic<std::size_t> next = 0;
      std::vector<std::thread> workers;
      for (int i = 0; i < threads; ++i)
        workers.emplace_back([&] {
          for (std::size_t run = next++; run < round.size(); run = next++)
            check_random_records(round[run], tallies[run]);
        });
      for (std::thread& worker : workers) worker.join();
      for (const RecordsTally& tally : tallies) all.merge(tally);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}{}\n{}\nReports: {} results judged, {} violated or improbable.\nSeed {}, {} threads, {:.0f} s.\n",
             table_heading(), table_row("records", all.tally, &BoundTally::max_utilisation), bound_table(all.tally),
             all.judged, all.alarms, seed, threads, seconds);
  for (const std::string& failure : all.tally.failures) fmt::print("\nFAILURE\n{}\n", failure);
  return all.tally.failures.empty() && all.tally.violations() == 0 && all.alarms == 0 ? 0 : 1;
} catch (const std::logic_error&) {  // of std::stoull and its like
  fmt::print(stderr, "usage: records_campaign [OUTPUTS [SEED [THREADS]]]\n       records_campaign --case SEED\n");
  return 3;
}
