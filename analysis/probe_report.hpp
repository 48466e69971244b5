#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "driftbound/evaluate/probe.hpp"

namespace driftbound::analysis {

/// What is probed, and what it says of itself.
struct ProbedKernel {
  std::string name;  ///< "driftbound CPU, fp32", "libopenblas.so.0"
  ProductCall product;
  SumCall sum;                              ///< empty: products
  std::optional<ArithmeticModel> declared;  ///< what it is said to compute, where it says so
};

/// A kernel of a library that has several for a shape.
struct KernelVariant {
  std::string words;  ///< "algorithm 1 of 3: id 22, tile 64x64"
  std::function<ProductCall()> open;
};

/// What `probe` is asked.
struct ProbeRequest {
  ProbedKernel kernel;
  /// The kernels of a shape, probed one after the other; empty: `kernel` alone.
  std::function<std::vector<KernelVariant>(const ProductShape&)> variants;
  ProductShape shape{256, 512, 8};
  std::vector<std::int64_t> batches;  ///< several m in place of the shape's, one after the other; empty: that
  std::string expected;               ///< order to find, by name; empty: the one that is declared
  std::int64_t determinism = 0;       ///< so many calls are compared in place of all that; 0: none are
  ProbeOptions options;               ///< but for `expected`
};

/// What was found of one shape, or of one batch size, or of one of several kernels. It has findings, or repeated calls, or
/// a reason why no tree explains it.
struct ProbedShape {
  ProductShape shape;
  std::optional<ProbeFindings> findings;
  std::optional<RepeatedCalls> repeated;
  double seconds = 0.0;
  std::string variant = {};      ///< in words; empty: there is one kernel
  std::string unexplained = {};  ///< the reason; of one of several kernels alone
};

/// What a probe comes to.
///   confirmed          all elements have trees with the kernel's bits, or all calls the same; as declared where it is
///   differs            something found is not what was declared
///   not_verified       some elements have no tree, or none that was verified
///   not_deterministic  repeated calls differ
enum class ProbeVerdict { confirmed, differs, not_verified, not_deterministic };

/// What `probe` says.
struct ProbeReport {
  std::string command, date;
  double seconds = 0.0;
  std::string kernel;                       ///< its name
  std::optional<ArithmeticModel> declared;  ///< as of ProbedKernel
  std::optional<SummationOrder> expected;   ///< the order that is declared or expected; empty: none
  bool is_sum = false;                      ///< rows are added up
  std::vector<ProbedShape> shapes;

  /// What was declared and is not what was found, in words; empty where they agree or nothing was declared.
  std::vector<std::string> differences(const ProbedShape& probed) const;
  ProbeVerdict verdict() const;
};

/// Answers a request; `command` stays empty. Of several kernels of a shape, one that no tree explains is a finding.
/// Throws:    InvalidArgument naming the option that does not fit; UnsoundEnvironment; what probe_product and
///            repeat_product throw
ProbeReport answer(const ProbeRequest& request);

/// The arithmetic found of a shape, as JSON.
/// Throws:    Unsupported where some elements are not confirmed, or no arithmetic describes what was found
std::string arithmetic_json(const ProbeReport& report, const ProbedShape& probed);

/// Text, page (with the trees drawn) and JSON (schema driftbound/probe/1). Exit status 0: what was declared was found and
/// everything is confirmed; 1: not so.
Document document_of(const ProbeReport& report);

/// Leaves that can be told apart in a drawing.
inline constexpr std::int64_t most_drawn_leaves = 256;
/// A tree as SVG; with more leaves groups of terms are drawn as one leaf. Empty for a single term.
std::string draw_tree(const SummationTree& tree);

}  // namespace driftbound::analysis
