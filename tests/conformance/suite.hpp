#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>

#include "driftbound/evaluate/cuda.hpp"
#include "evaluate/every_op.hpp"

// What every evaluator must do with every op. It needs what records alone needs, so that GPU machines can run it;
// judged.hpp holds the same runs against the certified reference.
namespace conformance {

using namespace driftbound;
using tests::OpCase;

/// An evaluator, and what it promises.
struct Backend {
  std::string name;
  std::function<Trace(const Graph&, const Inputs&, const RunOptions&)> run;
  ArithmeticModel arithmetic;     ///< what its traces say of it
  std::string provenance;         ///< Provenance::backend of its traces
  bool declares_its_bits = true;  ///< by arithmetic and order: whatever samples run together; every NaN one pattern
  std::optional<ArithmeticModel> twin;  ///< of the CPU evaluator that has the same bits on every op
};

Backend backend_of(const Evaluator& evaluator, std::string name, std::string provenance);

/// A module's device: the module of $DRIFTBOUND_PLUGIN_PATH, or else the one installed.
/// Throws:    NotAvailable
Backend device(const CudaOptions& options);

/// The backend through a trace file: written, read back.
Backend recorded(const Backend& backend);

/// Shapes, twice the same bits, the bits of the CPU evaluator where promised, and what the trace says.
void check_every_op(const Backend& backend);

/// NaN and infinities in one place of an operand come out where the formula in double has them, and leave every other
/// result as it was.
void check_poisoned_operands(const Backend& backend);

/// Values of functions and sums at zeros of both signs, infinities, NaN, the smallest and the largest numbers.
void check_special_values(const Backend& backend);

/// Samples alone, in pairs and all together.
void check_samples(const Backend& backend);

void check_all(const Backend& backend);

}  // namespace conformance
