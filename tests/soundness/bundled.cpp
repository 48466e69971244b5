#include "soundness/bundled.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"

namespace driftbound::soundness {

std::vector<std::filesystem::path> models_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void check_model(const std::filesystem::path& file, const ArithmeticModel& arithmetic, std::int64_t samples,
                 std::uint64_t seed, const CheckOptions& options, Tally& tally) {
  const Graph graph = load_model(file);
  InputGenerator generator;
  generator.samples = samples;
  generator.seed = seed;
  const Inputs inputs = generate_inputs(graph, generator);
  const auto describe = [&] {
    return fmt::format("{}: {} {}, {} samples, seed {:#x}", file.filename().string(), arithmetic.name,
                       to_string(arithmetic.order), samples, seed);
  };
  check_run(
      graph, [&] { return cpu_evaluator(arithmetic).run(graph, inputs); }, describe, options, tally);
}

}  // namespace driftbound::soundness
