#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/status.hpp"
#include "analysis/status_in_c.hpp"
#include "analysis/tolerance.hpp"
#include "driftbound/c/tolerance.h"
#include "driftbound/num/errors.hpp"

// The functions of driftbound/c/tolerance.h: requests and answers are translated here, and nothing is decided.

namespace driftbound::analysis {
namespace {

/// An answer, and what its pointers point to.
struct OwnedAnswer : driftbound_tolerance_answer {
  ToleranceReport report;
  std::string summary_text, formula_text, operands_text;
  std::vector<const char*> assumption_texts;
  std::vector<std::string> guarantees;
  std::vector<driftbound_tolerance_part> all_parts;
};

ElementType element_type(driftbound_type type) {
  switch (type) {
    case DRIFTBOUND_FLOAT64:
      return ElementType::f64;
    case DRIFTBOUND_FLOAT32:
      return ElementType::f32;
    case DRIFTBOUND_FLOAT16:
      return ElementType::f16;
    case DRIFTBOUND_BFLOAT16:
      return ElementType::bf16;
    case DRIFTBOUND_BOOL:
      return ElementType::boolean;
  }
  throw InvalidArgument("tolerance: an array of --data has a type that is none of driftbound_type");
}

StoredTensor array_from_c(const driftbound_array& array) {
  if (array.axes > 0 && array.shape == nullptr)
    throw InvalidArgument("tolerance: an array of --data has axes, and its shape is NULL");
  const ElementType type = element_type(array.type);
  const Shape shape(array.shape, array.shape + array.axes);
  const auto size = static_cast<std::size_t>(element_count(shape)) * bytes_per_element(type);
  if (size > 0 && array.numbers == nullptr)
    throw InvalidArgument("tolerance: an array of --data has the shape " + driftbound::to_string(shape) +
                          ", and its numbers are NULL");
  return {type, shape, std::span(static_cast<const std::byte*>(array.numbers), size), nullptr};
}

std::string text_or(const char* text, const char* otherwise) {
  return text != nullptr ? text : otherwise;
}

std::optional<double> number_at(const double* number) {
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

ToleranceRequest request_from_c(const driftbound_tolerance_request& given) {
  const ToleranceWords words;
  ToleranceRequest request;
  if (given.op == nullptr) throw InvalidArgument("tolerance: `op` is NULL: name one of " + names_of_tolerance_ops());
  if (given.threads < 1) throw InvalidArgument("tolerance: --threads: give a number from 1 on");
  if (given.data_count > 0 && given.data == nullptr)
    throw InvalidArgument("tolerance: `data_count` says that there are arrays, and `data` is NULL");
  request.op = given.op;
  request.k = given.k;
  request.keys = given.keys;
  request.has_bias = given.bias != 0;
  request.epsilon = number_at(given.epsilon);
  request.scale = number_at(given.scale);
  request.is_causal = given.causal != 0;
  request.stores_inside = given.stored_inside != 0;
  request.magnitude = given.magnitude;
  request.seed = given.seed;
  request.device = text_or(given.device, "");
  request.promotion = given.promotion;
  request.functions = text_or(given.functions, request.functions.c_str());
  request.failure_probability = given.failure_probability;
  request.threads = given.threads;
  for (std::size_t i = 0; i < given.data_count; ++i) request.data.push_back(array_from_c(given.data[i]));
  read_words({text_or(given.in, words.input.c_str()), text_or(given.acc, words.accumulator.c_str()),
              text_or(given.out, ""), text_or(given.order, ""), given.split_k},
             request);
  return request;
}

driftbound_tolerance_part part_for_c(const ToleranceOf& part, const std::string& guarantee) {
  const OpTolerance& tolerance = part.tolerance;
  return {part.data.c_str(),
          part.kernels.c_str(),
          part.device.empty() ? nullptr : part.device.c_str(),
          part.largest_result,
          guarantee.c_str(),
          part.proven,
          part.by_chance,
          part.estimate.value_or(std::numeric_limits<double>::quiet_NaN()),
          tolerance.exact.shape.size(),
          tolerance.exact.shape.data(),
          tolerance.exact.size(),
          tolerance.exact.values.data(),
          tolerance.proven.values.data(),
          tolerance.by_chance.values.data()};
}

std::unique_ptr<OwnedAnswer> owned_answer(ToleranceReport report, std::string summary) {
  auto owner = std::make_unique<OwnedAnswer>();
  owner->report = std::move(report);
  owner->summary_text = std::move(summary);
  owner->formula_text = owner->report.op.formula;
  owner->operands_text = owner->report.op.operands;
  for (const std::string& one : owner->report.parts.front().tolerance.assumptions)
    owner->assumption_texts.push_back(one.c_str());
  for (const ToleranceOf& part : owner->report.parts) owner->guarantees.emplace_back(name_of(part.tolerance.guarantee));
  for (std::size_t i = 0; i < owner->guarantees.size(); ++i)
    owner->all_parts.push_back(part_for_c(owner->report.parts[i], owner->guarantees[i]));
  static_cast<driftbound_tolerance_answer&>(*owner) = {owner->summary_text.c_str(),    owner->formula_text.c_str(),
                                                       owner->operands_text.c_str(),   owner->assumption_texts.size(),
                                                       owner->assumption_texts.data(), owner->all_parts.size(),
                                                       owner->all_parts.data()};
  return owner;
}

driftbound_status answer_in_c(const driftbound_tolerance_request& request,
                              const driftbound_tolerance_answer** answered) {
  ToleranceReport report = answer(request_from_c(request));
  const Document document = document_of(report);
  *answered = owned_answer(std::move(report), document.headline).release();
  return document.verdict == Status::holds ? DRIFTBOUND_OK : DRIFTBOUND_NO_TOLERANCE;
}

}  // namespace
}  // namespace driftbound::analysis

driftbound_tolerance_request driftbound_tolerance_defaults() {
  const driftbound::analysis::ToleranceRequest defaults;
  driftbound_tolerance_request request = {};
  request.magnitude = defaults.magnitude;
  request.seed = defaults.seed;
  request.failure_probability = defaults.failure_probability;
  request.threads = defaults.threads;
  return request;
}

driftbound_status driftbound_tolerance(const driftbound_tolerance_request* request,
                                       const driftbound_tolerance_answer** answer) {
  return driftbound::analysis::answered_in_c("tolerance", request, answer, driftbound::analysis::answer_in_c);
}

void driftbound_tolerance_free(const driftbound_tolerance_answer* answer) {
  delete static_cast<const driftbound::analysis::OwnedAnswer*>(answer);
}

const char* driftbound_tolerance_ops() {
  try {
    static const std::string names = driftbound::analysis::names_of_tolerance_ops();
    return names.c_str();
  } catch (...) {
    return "";
  }
}
