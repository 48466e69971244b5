#include "analysis/leak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <utility>

#include "analysis/text.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

enum class Others { rows_after, copies, values, number, more };

/// What becomes of the other rows.
struct Replacement {
  std::string_view name;
  Others kind = Others::number;
  double (*number)(const Format&) = nullptr;  ///< of all their elements
};

constexpr std::array replacements = {
    Replacement{"the rows after them", Others::rows_after},
    Replacement{"copies of the row", Others::copies},
    Replacement{"values of the batch", Others::values},
    Replacement{"zeros", Others::number, [](const Format&) { return 0.0; }},
    Replacement{"huge", Others::number, [](const Format& format) { return format.largest / 4.0; }},
    Replacement{"NaN", Others::number, [](const Format&) { return std::numeric_limits<double>::quiet_NaN(); }},
    Replacement{"infinity", Others::number, [](const Format&) { return std::numeric_limits<double>::infinity(); }},
    Replacement{"padded by more rows", Others::more},
};

std::size_t bytes_of_sample(const StoredTensor& tensor, std::int64_t samples) {
  return tensor.bytes().size() / static_cast<std::size_t>(samples);
}

StoredTensor filled(const StoredTensor& like, double number) {
  Tensor<double> values(like.shape());
  std::fill(values.values.begin(), values.values.end(), number);
  if (like.type() == ElementType::f64) return StoredTensor::from(values);
  Tensor<float> narrow(like.shape());
  std::fill(narrow.values.begin(), narrow.values.end(), static_cast<float>(number));
  return StoredTensor::from(narrow);
}

bool is_replaced(ElementType type, const Replacement& replacement) {
  if (replacement.kind == Others::values) return !is_float(type);
  return replacement.kind != Others::number || type == ElementType::f32 || type == ElementType::f64;
}

/// Elements in random order, drawn from those that the tensor has: tokens stay valid.
StoredTensor drawn(const StoredTensor& tensor) {
  const std::size_t width = bytes_per_element(tensor.type());
  std::vector<std::byte> bytes(tensor.bytes().size());
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    const auto from = static_cast<std::ptrdiff_t>(random() % tensor.size() * width);
    std::copy_n(tensor.bytes().begin() + from, width, bytes.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return StoredTensor(tensor.type(), tensor.shape(), std::move(bytes));
}

/// The samples, and half as many again behind them: the first ones, in the order from the last of these to the first.
StoredTensor padded(const StoredTensor& tensor, std::int64_t samples) {
  const std::int64_t more = (samples + 1) / 2;
  std::vector<std::byte> bytes(tensor.bytes().begin(), tensor.bytes().end());
  const std::size_t size = bytes_of_sample(tensor, samples);
  for (std::int64_t i = more; i-- > 0;) {
    const auto from = tensor.bytes().begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * size);
    bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(size));
  }
  Shape shape = tensor.shape();
  shape.front() = samples + more;
  return StoredTensor(tensor.type(), std::move(shape), std::move(bytes));
}

/// The tensor with all samples but one replaced; as it is where its type has no such number.
StoredTensor replaced(const StoredTensor& tensor, std::int64_t samples, std::int64_t kept,
                      const Replacement& replacement) {
  if (!is_replaced(tensor.type(), replacement)) return tensor;
  if (replacement.kind == Others::more) return padded(tensor, samples);
  std::vector<std::byte> bytes(tensor.bytes().begin(), tensor.bytes().end());
  const std::size_t size = bytes_of_sample(tensor, samples);
  const auto at = [size](std::int64_t sample) { return static_cast<std::size_t>(sample) * size; };
  StoredTensor numbers = tensor;
  if (replacement.kind == Others::values) numbers = drawn(tensor);
  if (replacement.kind == Others::number)
    numbers = filled(tensor, replacement.number(format(*float_format(tensor.type()))));
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    if (sample == kept) continue;
    std::int64_t from = sample;
    if (replacement.kind == Others::rows_after) {
      from = (sample + 1) % samples;
      if (from == kept) from = (from + 1) % samples;
    } else if (replacement.kind == Others::copies) {
      from = kept;
    }
    std::copy_n(numbers.bytes().begin() + static_cast<std::ptrdiff_t>(at(from)), size,
                bytes.begin() + static_cast<std::ptrdiff_t>(at(sample)));
  }
  return StoredTensor(tensor.type(), tensor.shape(), std::move(bytes));
}

/// The first, the last and two in between.
std::vector<std::int64_t> rows_to_test(std::int64_t samples) {
  std::vector<std::int64_t> rows = {0, samples / 3, 2 * samples / 3, samples - 1};
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

/// Compares rows of runs with those of the first run.
class RowComparer {
public:
  RowComparer(const Graph& graph, const Trace& base) : graph_(graph), base_(base), varies_(depends_on_input(graph)) {}

  void compare(const Trace& other, std::int64_t row, LeakFinding& finding) const {
    bool is_first = true;
    for (std::size_t node = 0; node < base_.layers.size(); ++node) {
      if (!varies_[graph_.nodes[node].output] || is_same(other, node, row)) continue;
      if (is_first) {
        ++finding.answered;
        if (!finding.row) {
          finding.row = row;
          finding.layer = graph_.nodes[node].name;
        }
      }
      is_first = false;
      const ValueId output = graph_.nodes[node].output;
      if (std::find(graph_.outputs.begin(), graph_.outputs.end(), output) != graph_.outputs.end())
        add_change(other, node, row, finding);
    }
  }

private:
  std::span<const std::byte> bytes_of(const Trace& trace, std::size_t node, std::int64_t row) const {
    const StoredTensor& tensor = trace.layers[node].output;
    const std::size_t size = bytes_of_sample(tensor, trace.samples);
    return tensor.bytes().subspan(static_cast<std::size_t>(row) * size, size);
  }
  bool is_same(const Trace& other, std::size_t node, std::int64_t row) const {
    const std::span<const std::byte> a = bytes_of(base_, node, row), b = bytes_of(other, node, row);
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  }
  void add_change(const Trace& other, std::size_t node, std::int64_t row, LeakFinding& finding) const {
    const std::vector<double> a = base_.layers[node].output.to_double().values;
    const std::vector<double> b = other.layers[node].output.to_double().values;
    const std::size_t size = a.size() / static_cast<std::size_t>(base_.samples);
    for (std::size_t i = static_cast<std::size_t>(row) * size; i < static_cast<std::size_t>(row + 1) * size; ++i) {
      const double change = std::abs(a[i] - b[i]);
      if (!std::isnan(finding.largest) && !(change <= finding.largest)) finding.largest = change;
    }
  }

  const Graph& graph_;
  const Trace& base_;
  std::vector<bool> varies_;
};

const LeakFinding* first_leak(const LeakReport& report) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                  [](const LeakFinding& one) { return one.answered > 0; });
  return found == report.findings.end() ? nullptr : &*found;
}

std::string headline_of(const LeakReport& report) {
  const std::string run = fmt::format("{} samples in one batch, {}", report.samples, report.arithmetic);
  if (const LeakFinding* leak = first_leak(report))
    return fmt::format(
        "BUG: row {} answers to the other rows of its batch: its bits change, first at '{}', where these "
        "are {} ({}).",
        *leak->row, leak->layer, leak->others, run);
  return fmt::format(
      "EXPECTED: no row answers to the other rows of its batch: {} rows keep all their bits, whatever the "
      "others are ({}).",
      report.rows.size(), run);
}

Table table_of(const LeakReport& report) {
  Table table{
      {{"other rows", 22, true}, {"tested", 7}, {"answered", 9}, {"largest change", 15}, {"first at", 30, true}}};
  for (const LeakFinding& one : report.findings)
    table.rows.push_back({{one.others, static_cast<std::int64_t>(report.rows.size()), one.answered,
                           one.answered > 0 ? Cell(Number{one.largest, Form::error}) : Cell(), Name{one.layer}}});
  return table;
}

}  // namespace

bool LeakReport::has_leak() const {
  return first_leak(*this) != nullptr;
}

LeakReport test_leaks(const Graph& graph, const Inputs& inputs, const std::function<Trace(const Inputs&)>& run) {
  if (!batch_layout(graph).batched)
    throw Unsupported("drift: --leak: the model has no axis of samples, so that no rows share a batch");
  const Trace base = run(inputs);
  if (base.samples < 2)
    throw InvalidArgument("drift: --leak needs two samples or more (--samples, or a file of inputs)");
  LeakReport report;
  report.program = base.provenance.program;
  report.arithmetic = base.arithmetic.name;
  report.samples = base.samples;
  report.rows = rows_to_test(base.samples);
  const RowComparer comparer(graph, base);
  for (const Replacement& replacement : replacements) {
    const bool is_for_some = std::any_of(inputs.tensors.begin(), inputs.tensors.end(), [&](const auto& input) {
      return is_replaced(input.second.type(), replacement);
    });
    if (!is_for_some || (replacement.kind == Others::rows_after && base.samples < 3)) continue;
    LeakFinding finding;
    finding.others = replacement.name;
    for (const std::int64_t row : report.rows) {
      Inputs changed;
      for (const auto& [name, tensor] : inputs.tensors)
        changed.tensors.emplace_back(name, replaced(tensor, base.samples, row, replacement));
      comparer.compare(run(changed), row, finding);
    }
    report.findings.push_back(std::move(finding));
  }
  return report;
}

Document document_of(const LeakReport& report) {
  Document document;
  document.verb = "drift";
  document.title = report.model;
  document.date = report.date;
  document.seconds = report.seconds;
  document.verdict = report.has_leak() ? Status::violated : Status::holds;
  document.headline = headline_of(report);
  document.sections = {{}, {table_of(report)}};
  Json findings = Json::array();
  for (const LeakFinding& one : report.findings)
    findings.push_back(object("others"_key = one.others, "answered"_key = one.answered, "row"_key = one.row,
                              "layer"_key = text_or_null(one.layer), "largest"_key = one.largest));
  document.fields =
      object("schema"_key = "driftbound/leak/1", "version"_key = DRIFTBOUND_VERSION, "date"_key = report.date,
             "command"_key = report.command, "model"_key = report.model, "program"_key = report.program,
             "arithmetic"_key = report.arithmetic, "verdict"_key = report.has_leak() ? "bug" : "expected",
             "reason"_key = document.headline, "samples"_key = report.samples, "rows"_key = report.rows,
             "findings"_key = findings, "seconds"_key = report.seconds);
  document.records = table_of(report);
  for (const LeakFinding& one : report.findings)
    document.cases.push_back(
        {"leak", one.others, one.answered > 0 ? Status::violated : Status::holds,
         one.answered > 0 ? fmt::format("{} rows answer, first row {} at '{}'", one.answered, *one.row, one.layer)
                          : std::string("no row answers")});
  document.exit_status = report.has_leak() ? 2 : 0;
  return document;
}

}  // namespace driftbound::analysis
