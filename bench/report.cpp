// What a whole report costs, in float32 forward passes of the same samples by Eigen (products, biases, functions):
//   report/*     evaluation, references, every bound, comparison, one scalar, JSON
//   judge/*      the same but for evaluation and JSON
//   bounds/*     every bound alone
#include "analysis/report.hpp"

#include <filesystem>
#include <string>

#include "analysis/judge.hpp"
#include "bench/networks.hpp"
#include "bench/timing.hpp"
#include "cli/keep_memory.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"

namespace {

using namespace driftbound;

void bench_report(const std::string& name, const Graph& graph, std::int64_t samples, int runs) {
  InputGenerator generator;
  generator.samples = samples;
  const Inputs inputs = generate_inputs(graph, generator);
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")));
  const Trace trace = evaluator.run(graph, inputs);
  analysis::JudgeOptions options;
  analysis::Scalar difference;
  difference.positive = {0, 1};
  difference.negative = OutputElement{0, 0};
  difference.text = "second - first";
  options.scalars = {difference};
  options.trace_is_declared_run = true;
  BoundOptions how;
  how.targets = {difference};
  how.trace_is_declared_run = true;
  bench::Forward<float> forward(graph, inputs);
  const auto time = [&](const char* what, const std::function<void()>& work) {
    bench::print("report", fmt::format("{}/{}/{}/t1", what, name, samples), "eigen-forward-float",
                 bench::medians(runs, work, forward, bench::cpu_seconds_of), 1);
  };
  time("report", [&] {
    analysis::Report report;
    report.comparison = analysis::judge(graph, evaluator.run(graph, inputs), options).comparison;
    (void)analysis::to_json(analysis::document_of(report));
  });
  time("judge", [&] { (void)analysis::judge(graph, trace, options); });
  time("bounds", [&] {
    const Bounder bounder(graph, how);
    const BatchLayout layout = batch_layout(graph);
    for (std::int64_t first = 0; first < samples; first += options.block)
      (void)bounder(slice(graph, layout, trace, first, std::min(options.block, samples - first)));
  });
}

}  // namespace

int main(int argc, char** argv) {
  cli::keep_memory();
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argument == "--quick") return bench_report("oscillator_d2_w16", bench::bundled("oscillator_d2_w16"), 4, 1), 0;
  if (!argument.empty()) return bench_report(std::filesystem::path(argument).stem(), load_model(argument), 1000, 3), 0;
  bench_report("resnet8x512", bench::residual_network(8, 512), 1000, 3);
}
