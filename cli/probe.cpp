#include "driftbound/evaluate/probe.hpp"

#include <unistd.h>

#include <chrono>
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
  std::string shape = "256,512,8", batches, blas, expected, exported, name;
  bool is_exchange = false, is_sum = false;
  std::int64_t determinism = 0;
  ProbeOptions options;
  Outputs outputs;
};

/// What is probed, and what it says of itself.
struct ProbedKernel {
  std::string name;
  ProductCall product;
  SumCall sum;  ///< empty: products
  std::optional<ArithmeticModel> declared;
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

/// The shape as given, or with each batch size in place of its rows.
std::vector<ProductShape> shapes_of(const ProbeSettings& settings) {
  const std::vector<std::int64_t> extents = extents_in(settings.shape, "--shape");
  if (extents.size() != (settings.is_sum ? 2 : 3))
    throw InvalidArgument("probe: --shape " + settings.shape + ": give " +
                          (settings.is_sum ? "m,k of m rows of k numbers" : "m,k,n of [m, k] x [k, n]"));
  const ProductShape shape{extents[0], extents[1], settings.is_sum ? 1 : extents[2]};
  if (settings.batches.empty()) return {shape};
  std::vector<ProductShape> shapes;
  for (const std::int64_t m : extents_in(settings.batches, "--batch")) shapes.push_back({m, shape.k, shape.n});
  return shapes;
}

void check_probe(const ProbeSettings& settings, const CLI::App& app) {
  for (const char* other : {"--blas", "--exchange"})
    require_without(app, other,
                    {"--backend", "--device", "--block", "--promotion", "--round-parts", "--arithmetic", "--gemm",
                     "--order", "--store"},
                    "the kernel is another program's; say its order by --expect");
  require_without(app, "--blas", {"--exchange"}, "name one kernel");
  require_without(app, "--sum", {"--blas"}, "it has products alone");
  require_without(app, "--determinism", {"--export", "--expect"},
                  "calls are repeated and compared; no order is looked for");
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

ProbedKernel probed_kernel(const ProbeSettings& settings) {
  const auto named = [&](const char* name) { return settings.name.empty() ? std::string(name) : settings.name; };
  if (!settings.blas.empty()) return {named(settings.blas.c_str()), blas_kernel(settings.blas), {}, {}};
  if (settings.is_exchange && settings.is_sum) return {named("the program asked"), {}, exchanged_sum(), {}};
  if (settings.is_exchange) return {named("the program asked"), exchanged_product(), {}, {}};
  const Evaluator evaluator = settings.run.evaluator_for(settings.is_sum ? sum_graph(1, 1) : product_graph({}));
  ArithmeticModel declared = evaluator.arithmetic();
  const std::string name = declared.source + ", " + declared.name;
  if (!settings.is_sum) return {name, product_call(evaluator), {}, declared};
  declared.tensor_core.reset();  // numbers of sums are no operands of products
  declared.input = declared.accumulator;
  return {name, {}, sum_call(evaluator), declared};
}

analysis::ProbedShape probe_shape(const ProbeSettings& settings, const ProbedKernel& kernel,
                                  const ProductShape& shape) {
  const auto start = std::chrono::steady_clock::now();
  analysis::ProbedShape probed;
  probed.shape = shape;
  if (settings.determinism > 0)
    probed.repeated = kernel.sum ? repeat_sum(kernel.sum, shape.m, shape.k, settings.determinism, settings.options.seed)
                                 : repeat_product(kernel.product, shape, settings.determinism, settings.options.seed);
  else
    probed.findings = kernel.sum ? probe_sum(kernel.sum, shape.m, shape.k, settings.options)
                                 : probe_product(kernel.product, shape, settings.options);
  probed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return probed;
}

void export_arithmetic(const ProbeSettings& settings, const analysis::ProbeReport& report) {
  if (settings.exported.empty()) return;
  const ProbeFindings& findings = *report.shapes.front().findings;
  if (!findings.is_confirmed())
    throw Unsupported("probe: --export: some elements are not confirmed; an arithmetic is written where all are");
  write_whole(settings.exported, to_json(arithmetic_of(findings, report.kernel)) + "\n");
}

int run_probe(ProbeSettings settings, const CLI::App& app) {
  const auto start = std::chrono::steady_clock::now();
  check_probe(settings, app);
  settings.outputs.check({settings.exported});
  const std::vector<ProductShape> shapes = shapes_of(settings);
  if (!settings.exported.empty() && shapes.size() > 1)
    throw InvalidArgument("probe: --export writes the arithmetic of one shape; leave --batch out, or give one");
  ProbedKernel kernel = probed_kernel(settings);
  analysis::Progress progress("probing", !settings.outputs.quiet, "calls");
  kernel.product = watched(kernel.product, progress);
  kernel.sum = watched(kernel.sum, progress);
  analysis::ProbeReport report;
  report.kernel = kernel.name;
  report.declared = kernel.declared;
  report.is_sum = settings.is_sum;
  if (!settings.expected.empty())
    report.expected = parse_summation_order(settings.expected);
  else if (kernel.declared && kernel.declared->order.gives_partial_sums())
    report.expected = kernel.declared->order;
  if (report.expected && !report.expected->gives_partial_sums())
    throw InvalidArgument("probe: --expect " + settings.expected + ": name an order that says which sums are formed");
  settings.options.expected = report.expected.value_or(SummationOrder{});
  for (const ProductShape& shape : shapes) report.shapes.push_back(probe_shape(settings, kernel, shape));
  progress.clear();
  report.command = settings.command;
  report.date = now_utc();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const analysis::Document document = analysis::document_of(report);
  if (settings.is_exchange) end_exchange();
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, false}, [&] { export_arithmetic(settings, report); });
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
  app.add_option("--expect", settings->expected,
                 "Order to find: sequential, pairwise, blocked:B, split-k:S, each with +fma or without (default: as "
                 "the backend declares it)");
  app.add_option("--export", settings->exported, "Write the arithmetic found to this file (.json)");
  app.add_option("--determinism", settings->determinism, "Make this many calls with the same numbers, compare all bits")
      ->check(CLI::Range(2, 1 << 30));
  add_option(app, "--calls", settings->options.calls, "Calls for the masks of one tree, at most", counts());
  add_option(app, "--seconds", settings->options.seconds, "For these, at most, as the calls before tell",
             CLI::PositiveNumber);
  add_option(app, "--seed", settings->options.seed, "Of the data", seeds());
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
