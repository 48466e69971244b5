#include "driftbound/evaluate/probe.hpp"

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/probe_report.hpp"
#include "analysis/progress.hpp"
#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/parse.hpp"
#include "cli/probe_kernels.hpp"
#include "cli/verbs.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

struct ProbeSettings {
  std::string command;
  RunSettings run;
  std::string shape = "256,512,8", batches, blas, exported, name;
  bool is_exchange = false, is_sum = false;
  analysis::ProbeRequest request;
  Outputs outputs;
};

std::vector<std::int64_t> extents_in(const std::string& text, const char* option) {
  std::vector<std::int64_t> extents;
  for (const std::string& part : split(text, ',')) {
    const std::optional<std::int64_t> extent = number_of<std::int64_t>(part);
    if (!extent || *extent < 1)
      throw InvalidArgument(std::string("probe: ") + option + " " + text + ": '" + part + "' is no number from 1 on");
    extents.push_back(*extent);
  }
  return extents;
}

ProductShape shape_of(const ProbeSettings& settings) {
  const std::vector<std::int64_t> extents = extents_in(settings.shape, "--shape");
  if (extents.size() != (settings.is_sum ? 2 : 3))
    throw InvalidArgument("probe: --shape " + settings.shape + ": give " +
                          (settings.is_sum ? "m,k of m rows of k numbers" : "m,k,n of [m, k] x [k, n]"));
  return {extents[0], extents[1], settings.is_sum ? 1 : extents[2]};
}

void check_probe(const ProbeSettings& settings, const CLI::App& app) {
  for (const char* other : {"--blas", "--exchange"})
    require_without(app, other,
                    {"--backend", "--device", "--block", "--promotion", "--round-parts", "--arithmetic", "--gemm",
                     "--algorithm", "--order", "--store"},
                    "the kernel is another program's; say its order by --expect");
  require_without(app, "--blas", {"--exchange"}, "name one kernel");
  require_without(app, "--sum", {"--blas", "--algorithm"}, "these have products alone");
  require_without(app, "--determinism", {"--export"}, "calls are repeated and compared; no order is looked for");
  if (settings.run.arithmetic == "fp64")
    throw InvalidArgument("probe: --arithmetic fp64: kernels of float32 numbers are probed; choose another one");
}

/// The same kernel, which shows that it works, and stops where the user interrupts.
template <class Result, class... Arguments>
std::function<Result(Arguments...)> watched(std::function<Result(Arguments...)> call, analysis::Progress& progress) {
  if (!call) return call;
  return [call, &progress, calls = std::int64_t{0}](Arguments... arguments) mutable {
    if (interrupted()) throw Interrupted("interrupted");
    progress.update(calls++);
    return call(arguments...);
  };
}

analysis::ProbedKernel probed_kernel(const ProbeSettings& settings) {
  const auto named = [&](const char* name) { return settings.name.empty() ? std::string(name) : settings.name; };
  if (!settings.blas.empty()) return {named(settings.blas.c_str()), blas_kernel(settings.blas), {}, {}};
  if (settings.is_exchange && settings.is_sum) return {named("the program asked"), {}, exchanged_sum(), {}};
  if (settings.is_exchange) return {named("the program asked"), exchanged_product(), {}, {}};
  RunSettings run = settings.run;
  if (run.algorithm == "all") run.algorithm.clear();  // what is declared of one is declared of all
  const Evaluator evaluator = run.evaluator_for(settings.is_sum ? sum_graph(1, 1) : product_graph({}));
  ArithmeticModel declared = evaluator.arithmetic();
  const std::string name = declared.source + ", " + declared.name;
  if (!settings.is_sum) return {name, product_call(evaluator), {}, declared};
  declared.tensor_core.reset();  // numbers of sums are no operands of products
  declared.input = declared.accumulator;
  return {name, {}, sum_call(evaluator), declared};
}

/// The algorithms of cuBLASLt that are asked for, each by an evaluator of its own.
std::vector<analysis::KernelVariant> algorithms_of(const ProbeSettings& settings, const ProductShape& shape,
                                                   analysis::Progress& progress) {
  const std::vector<std::string> offered = settings.run.algorithms_for(shape.m, shape.k, shape.n);
  if (offered.empty()) throw Unsupported("probe: cuBLASLt offers no algorithm for this product");
  const bool takes_all = settings.run.algorithm == "all";
  const auto asked = number_of<std::size_t>(settings.run.algorithm).value_or(0);
  if (!takes_all && asked >= offered.size())
    throw Unsupported("probe: --algorithm " + settings.run.algorithm + ": cuBLASLt offers " +
                      std::to_string(offered.size()) + " for this product, numbered from 0 on");
  std::vector<analysis::KernelVariant> variants;
  for (std::size_t i = takes_all ? 0 : asked; i < (takes_all ? offered.size() : asked + 1); ++i) {
    const std::string words =
        "algorithm " + std::to_string(i) + " of " + std::to_string(offered.size()) + ": " + offered[i];
    variants.push_back({words, [&settings, &progress, i] {
                          RunSettings run = settings.run;
                          run.algorithm = std::to_string(i);
                          return watched(product_call(run.evaluator_for(product_graph({}))), progress);
                        }});
  }
  return variants;
}

int run_probe(ProbeSettings settings, const CLI::App& app) {
  check_probe(settings, app);
  settings.outputs.check({settings.exported});
  analysis::ProbeRequest& request = settings.request;
  request.shape = shape_of(settings);
  if (!settings.batches.empty()) request.batches = extents_in(settings.batches, "--batch");
  if (!settings.exported.empty() && request.batches.size() > 1)
    throw InvalidArgument("probe: --export writes the arithmetic of one shape; leave --batch out, or give one");
  const bool takes_all = settings.run.algorithm == "all";
  if (takes_all && !settings.exported.empty())
    throw InvalidArgument("probe: --export writes the arithmetic of one algorithm; give its number by --algorithm");
  request.kernel = probed_kernel(settings);
  analysis::Progress progress("probing", !settings.outputs.quiet, "calls");
  request.kernel.product = watched(request.kernel.product, progress);
  request.kernel.sum = watched(request.kernel.sum, progress);
  if (settings.run.gemm == "cublaslt" && !settings.is_sum)
    request.variants = [&](const ProductShape& shape) { return algorithms_of(settings, shape, progress); };
  analysis::ProbeReport report = analysis::answer(request);
  progress.clear();
  report.command = settings.command;
  const analysis::Document document = analysis::document_of(report);
  if (settings.is_exchange) end_exchange();
  const auto export_arithmetic = [&] {
    if (!settings.exported.empty())
      write_whole(settings.exported, analysis::arithmetic_json(report, report.shapes.front()));
  };
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, false}, export_arithmetic);
  return document.exit_status;
}

Verb::Run add_probe(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<ProbeSettings>();
  settings->command = command_line;
  settings->run.add_arithmetic_to(app);
  app.add_option("--blas", settings->blas, "Probe cblas_sgemm of this shared library: libopenblas.so.0");
  app.add_flag("--exchange", settings->is_exchange,
               "Probe the program at the other ends of standard output and input (docs/probe.md)");
  app.add_option("--name", settings->name, "What the report calls the kernel of --blas or --exchange");
  app.add_flag("--sum", settings->is_sum, "Sums of rows instead of products");
  app.add_option("--shape", settings->shape, "m,k,n of [m, k] x [k, n]; of sums m,k: m rows of k numbers")
      ->capture_default_str();
  app.add_option("--batch", settings->batches, "Several m, one after the other: 1,16,256 (default: that of --shape)");
  app.add_option("--expect", settings->request.expected,
                 "Order to find: sequential, pairwise, blocked:B, split-k:S, each with +fma or without (default: as "
                 "the backend declares it)");
  app.add_option("--export", settings->exported, "Write the arithmetic found to this file (.json)");
  app.add_option("--determinism", settings->request.determinism,
                 "Make this many calls with the same numbers, compare all bits")
      ->check(CLI::Range(2, 1 << 30));
  add_option(app, "--calls", settings->request.options.calls, "Calls for the masks of one tree, at most", counts());
  add_option(app, "--seconds", settings->request.options.seconds, "For these, at most, as the calls before tell",
             CLI::PositiveNumber);
  add_option(app, "--seed", settings->request.options.seed, "Of the data", seeds());
  settings->outputs.add_json_to(app,
                                "Write what was found as JSON to this file (-: standard output, instead of the text)");
  settings->outputs.add_others_to(app);
  settings->outputs.add_quiet_to(app);
  return [settings, &app] { return run_probe(*settings, app); };
}

}  // namespace

Verb probe() {
  return {"probe", "Find the order of summation and the arithmetic of a kernel, and compare with what is declared",
          add_probe};
}

}  // namespace driftbound::cli
