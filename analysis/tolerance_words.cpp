#include <string>

#include "analysis/tolerance.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

/// Whether it is a format of blocks with a scale (Open Compute Project, Microscaling Formats 1.0).
bool has_scales(const std::string& name) {
  return name == "mxfp8" || name == "mxfp6" || name == "mxfp4";
}

/// Throws:    InvalidArgument
FormatId format_of(const std::string& name, const char* option) {
  for (const FormatId id : {FormatId::fp64, FormatId::fp32, FormatId::tf32, FormatId::bf16, FormatId::fp16,
                            FormatId::fp8_e4m3, FormatId::fp8_e5m2})
    if (name == format(id).name) return id;
  throw InvalidArgument(std::string("tolerance: ") + option + " " + name +
                        ": choose among fp64, fp32, tf32, bf16, fp16, fp8_e4m3, fp8_e5m2; of operands also mxfp8, "
                        "mxfp6, mxfp4");
}

}  // namespace

void read_words(const ToleranceWords& words, ToleranceRequest& request) {
  if (has_scales(words.input)) {
    request.scaled_input = words.input;
    request.input = request.data.empty() ? FormatId::bf16 : FormatId::fp32;
  } else {
    request.input = format_of(words.input, "--in");
  }
  request.accumulator = format_of(words.accumulator, "--acc");
  request.output = format_of(words.output.empty() ? words.accumulator : words.output, "--out");
  if (!words.order.empty() && words.split_k != 0)
    throw InvalidArgument("tolerance: --order and --split-k both say in which order; leave one of them out");
  if (words.split_k < 0)
    throw InvalidArgument("tolerance: --split-k is " + std::to_string(words.split_k) + ": give a number from 1 on");
  if (!words.order.empty()) request.order = parse_summation_order(words.order);
  if (words.split_k > 0) request.order = {SummationOrder::Kind::split_k, words.split_k, true};
}

}  // namespace driftbound::analysis
