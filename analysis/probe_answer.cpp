#include <chrono>
#include <utility>

#include "analysis/probe_report.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

void check(const ProbeRequest& request) {
  if (request.determinism != 0 && request.determinism < 2)
    throw InvalidArgument("probe: --determinism is " + std::to_string(request.determinism) +
                          ": give the number of calls, 2 or more");
  if (request.determinism > 0 && !request.expected.empty())
    throw InvalidArgument("probe: --determinism and --expect: calls are repeated and compared; no order is looked for");
  if (request.options.calls < 1)
    throw InvalidArgument("probe: --calls is " + std::to_string(request.options.calls) + ": give 1 or more");
  if (!(request.options.seconds > 0.0)) throw InvalidArgument("probe: --seconds: give a number above 0");
}

/// As asked for, else as declared.
std::optional<SummationOrder> expected_order(const ProbeRequest& request) {
  const std::optional<ArithmeticModel>& declared = request.kernel.declared;
  if (request.expected.empty())
    return declared && declared->order.gives_partial_sums() ? std::optional(declared->order) : std::nullopt;
  const SummationOrder order = parse_summation_order(request.expected);
  if (!order.gives_partial_sums())
    throw InvalidArgument("probe: --expect " + request.expected + ": name an order that says which sums are formed");
  return order;
}

ProbedShape probed_shape(const ProbeRequest& request, const ProbeOptions& options, const ProductShape& shape,
                         const ProductCall& product) {
  const auto start = std::chrono::steady_clock::now();
  const SumCall& sum = request.kernel.sum;
  ProbedShape probed;
  probed.shape = shape;
  if (request.determinism > 0)
    probed.repeated = sum ? repeat_sum(sum, shape.m, shape.k, request.determinism, options.seed)
                          : repeat_product(product, shape, request.determinism, options.seed);
  else
    probed.findings = sum ? probe_sum(sum, shape.m, shape.k, options) : probe_product(product, shape, options);
  probed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return probed;
}

void add_shape(const ProbeRequest& request, const ProbeOptions& options, const ProductShape& shape,
               std::vector<ProbedShape>& shapes) {
  if (!request.variants) {
    shapes.push_back(probed_shape(request, options, shape, request.kernel.product));
    return;
  }
  const std::vector<KernelVariant> variants = request.variants(shape);
  for (const KernelVariant& variant : variants) {
    try {
      shapes.push_back(probed_shape(request, options, shape, variant.open()));
    } catch (const Unsupported& error) {
      if (variants.size() == 1) throw;
      shapes.push_back({});
      shapes.back().shape = shape;
      shapes.back().unexplained = error.what();
    }
    shapes.back().variant = variant.words;
  }
}

}  // namespace

ProbeReport answer(const ProbeRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  require_sound_environment();
  check(request);
  ProbeReport report;
  report.kernel = request.kernel.name;
  report.declared = request.kernel.declared;
  report.is_sum = static_cast<bool>(request.kernel.sum);
  report.expected = expected_order(request);
  ProbeOptions options = request.options;
  options.expected = report.expected.value_or(SummationOrder{});
  std::vector<std::int64_t> batches = request.batches;
  if (batches.empty()) batches = {request.shape.m};
  for (const std::int64_t m : batches)
    add_shape(request, options, {m, request.shape.k, request.shape.n}, report.shapes);
  report.date = now_utc();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::string arithmetic_json(const ProbeReport& report, const ProbedShape& probed) {
  if (!probed.findings) throw Unsupported("probe: --determinism finds no arithmetic");
  if (!probed.findings->is_confirmed())
    throw Unsupported("probe: --export: some elements are not confirmed; an arithmetic is written where all are");
  return to_json(arithmetic_of(*probed.findings, report.kernel)) + "\n";
}

}  // namespace driftbound::analysis
