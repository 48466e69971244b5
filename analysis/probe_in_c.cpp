#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analysis/probe_report.hpp"
#include "analysis/status_in_c.hpp"
#include "driftbound/c/probe.h"
#include "driftbound/num/environment.hpp"

// The functions of driftbound/c/probe.h: requests, kernels and answers are translated here, and nothing is decided.

namespace driftbound::analysis {
namespace {

/// Texts of a shape that the answer points to.
struct ShapeTexts {
  std::string order, words, svg, arithmetic, no_arithmetic;
};

/// An answer, and what its pointers point to.
struct OwnedProbe : driftbound_probe_answer {
  std::string summary_text, whole_text, json_text;
  std::vector<ShapeTexts> texts;
  std::vector<driftbound_probed_shape> all_shapes;
};

/// A quiet NaN that no kernel computes from numbers.
constexpr std::uint32_t not_written = 0x7fd0b0edU;

/// Calls a kernel of C with copies of the operands; call(copies, c) returns its status.
/// Throws:    std::runtime_error saying what it did wrong
template <std::size_t count, class Call>
std::vector<float> called(std::size_t size, const std::array<std::span<const float>, count>& operands, Call call) {
  constexpr const char* names[] = {"A", "B"};
  std::array<std::vector<float>, count> copies;
  for (std::size_t i = 0; i < count; ++i) copies[i].assign(operands[i].begin(), operands[i].end());
  std::vector<float> c(size, std::bit_cast<float>(not_written));
  int status = 0;
  try {
    status = call(copies, c.data());
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("it threw an exception: ") + error.what());
  } catch (...) {
    throw std::runtime_error("it threw an exception that is no std::exception");
  }
  try {
    require_sound_environment();
  } catch (const UnsoundEnvironment& error) {
    throw std::runtime_error(std::string("it changed the floating-point environment of its thread: ") + error.what());
  }
  if (status != 0) throw std::runtime_error("it returned " + std::to_string(status));
  for (std::size_t i = 0; i < count; ++i)
    if (std::memcmp(copies[i].data(), operands[i].data(), operands[i].size_bytes()) != 0)
      throw std::runtime_error(std::string("it changed ") + names[i] + ", which it may only read");
  const auto left =
      std::find_if(c.begin(), c.end(), [](float x) { return std::bit_cast<std::uint32_t>(x) == not_written; });
  if (left != c.end())
    throw std::runtime_error("it wrote no number to element " + std::to_string(left - c.begin()) +
                             " of C, or added to what is there, which is a NaN");
  return c;
}

ProductCall product_from_c(driftbound_multiply multiply, void* context) {
  return [=](const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
    return called<2>(static_cast<std::size_t>(shape.m * shape.n), {a, b}, [&](const auto& operands, float* c) {
      return multiply(context, shape.m, shape.k, shape.n, operands[0].data(), operands[1].data(), c);
    });
  };
}

SumCall sum_from_c(driftbound_add_up add_up, void* context) {
  return [=](std::int64_t rows, std::int64_t length, std::span<const float> values) {
    return called<1>(static_cast<std::size_t>(rows), {values}, [&](const auto& operands, float* c) {
      return add_up(context, rows, length, operands[0].data(), c);
    });
  };
}

ProbeRequest request_from_c(const driftbound_probe_request& given) {
  if ((given.multiply == nullptr) == (given.add_up == nullptr))
    throw InvalidArgument("probe: name one kernel: `multiply` or `add_up`");
  if (given.batch_count > 0 && given.batch == nullptr)
    throw InvalidArgument("probe: `batch_count` says that there are batches, and `batch` is NULL");
  ProbeRequest request;
  request.kernel.name = given.name != nullptr ? given.name : "the function";
  if (given.multiply != nullptr) request.kernel.product = product_from_c(given.multiply, given.context);
  if (given.add_up != nullptr) request.kernel.sum = sum_from_c(given.add_up, given.context);
  request.shape = {given.m, given.k, given.multiply != nullptr ? given.n : 1};
  request.batches.assign(given.batch, given.batch + given.batch_count);
  if (given.expect != nullptr && *given.expect == '\0')
    throw InvalidArgument("probe: --expect is empty: name an order, or give no text at all");
  if (given.expect != nullptr) request.expected = given.expect;
  request.determinism = given.determinism;
  request.options.calls = given.calls;
  request.options.seconds = given.seconds;
  request.options.seed = given.seed;
  return request;
}

ShapeTexts texts_of(const ProbeReport& report, const ProbedShape& probed) {
  ShapeTexts texts;
  try {
    texts.arithmetic = arithmetic_json(report, probed);
  } catch (const Unsupported& error) {
    texts.no_arithmetic = error.what();
  }
  if (!probed.findings) return texts;
  texts.order = to_string(probed.findings->order);
  texts.words = words_for(probed.findings->tree());
  texts.svg = draw_tree(probed.findings->tree());
  return texts;
}

driftbound_probed_shape shape_for_c(const ProbedShape& probed, const ShapeTexts& texts) {
  const auto text = [](const std::string& from) { return from.empty() ? nullptr : from.c_str(); };
  driftbound_probed_shape shape = {};
  shape.m = probed.shape.m;
  shape.k = probed.shape.k;
  shape.n = probed.shape.n;
  shape.order = text(texts.order);
  shape.words = text(texts.words);
  shape.svg = text(texts.svg);
  shape.arithmetic = text(texts.arithmetic);
  shape.no_arithmetic = text(texts.no_arithmetic);
  if (probed.findings) {
    shape.height = probed.findings->tree().height();
    shape.classes = probed.findings->classes.size();
    shape.calls = probed.findings->calls;
  }
  if (probed.repeated) {
    shape.calls = probed.repeated->calls;
    shape.differing_calls = probed.repeated->differing_calls;
  }
  return shape;
}

driftbound_probe_verdict verdict_for_c(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::confirmed:
      return DRIFTBOUND_PROBE_CONFIRMED;
    case ProbeVerdict::differs:
      return DRIFTBOUND_PROBE_DIFFERS;
    case ProbeVerdict::not_verified:
      break;
    case ProbeVerdict::not_deterministic:
      return DRIFTBOUND_PROBE_NOT_DETERMINISTIC;
  }
  return DRIFTBOUND_PROBE_NOT_VERIFIED;
}

driftbound_status probe_in_c(const driftbound_probe_request& given, const driftbound_probe_answer** answered) {
  const ProbeReport report = answer(request_from_c(given));
  const Document document = document_of(report);
  auto owner = std::make_unique<OwnedProbe>();
  owner->summary_text = document.headline;
  owner->whole_text = to_text(document);
  owner->json_text = to_json(document);
  for (const ProbedShape& probed : report.shapes) owner->texts.push_back(texts_of(report, probed));
  for (std::size_t i = 0; i < report.shapes.size(); ++i)
    owner->all_shapes.push_back(shape_for_c(report.shapes[i], owner->texts[i]));
  static_cast<driftbound_probe_answer&>(*owner) = {verdict_for_c(report.verdict()), owner->summary_text.c_str(),
                                                   owner->whole_text.c_str(),       owner->json_text.c_str(),
                                                   owner->all_shapes.size(),        owner->all_shapes.data()};
  *answered = owner.release();
  return document.exit_status == 0 ? DRIFTBOUND_OK : DRIFTBOUND_NOT_CONFIRMED;
}

}  // namespace
}  // namespace driftbound::analysis

driftbound_probe_request driftbound_probe_defaults() {
  const driftbound::analysis::ProbeRequest defaults;
  driftbound_probe_request request = {};
  request.m = defaults.shape.m;
  request.k = defaults.shape.k;
  request.n = defaults.shape.n;
  request.calls = defaults.options.calls;
  request.seconds = defaults.options.seconds;
  request.seed = defaults.options.seed;
  return request;
}

driftbound_status driftbound_probe(const driftbound_probe_request* request, const driftbound_probe_answer** answer) {
  return driftbound::analysis::answered_in_c("probe", request, answer, driftbound::analysis::probe_in_c);
}

void driftbound_probe_free(const driftbound_probe_answer* answer) {
  delete static_cast<const driftbound::analysis::OwnedProbe*>(answer);
}
