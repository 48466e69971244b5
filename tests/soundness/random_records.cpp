#include "soundness/random_records.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/judge_records.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/recorded_call.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/record_parts.hpp"
#include "soundness/lone_node.hpp"
#include "soundness/random_values.hpp"
#include "support/recording.hpp"

namespace driftbound::soundness {
namespace {

using Json = nlohmann::json;
using Ids = test::RecordingWriter::Ids;

Attribute attribute_of(const Json& json) {
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return {json.get<std::string>()};
  Attribute::List list;
  for (const Json& element : json) list.push_back(attribute_of(element));
  return {std::move(list)};
}

SummationOrder order_of_step(Random& random) {
  return parse_summation_order(
      random.pick(std::vector<std::string>{"sequential", "sequential+fma", "pairwise", "blocked:8+fma", "split-k:3"}));
}

/// A program that calls ops and records them.
class Program {
public:
  explicit Program(std::uint64_t seed) : random_(seed), data_(random_.pick(all_families())) {
    type_ = random_.pick(std::vector<ElementType>{ElementType::f32, ElementType::f32, ElementType::f32,
                                                  ElementType::f32, ElementType::bf16, ElementType::f16});
    width_ = random_.integer(1, 12) * 2;
    current_ = fresh({random_.integer(1, 9), width_}, Role::input);
    const std::int64_t calls = random_.integer(1, 5);
    for (std::int64_t i = 0; i < calls; ++i) call_something();
  }

  void write(const std::filesystem::path& file) { writer_.write(file); }
  const std::string& text() const { return text_; }

private:
  // ---- values

  std::string add(StoredTensor tensor) {
    const std::string id = fmt::format("v{}", values_.size());
    values_.emplace(id, std::move(tensor));
    return id;
  }

  std::string fresh(const Shape& shape, Role role) {
    const std::string id =
        add(store(type_, shape, draw_values(random_, data_, role, shape, shape.empty() ? 0 : shape.size() - 1)));
    keep(id, false);
    return id;
  }

  std::string whole_numbers(const Shape& shape, std::int64_t below) {
    Tensor<std::int64_t> numbers(shape);
    for (std::int64_t& number : numbers.values) number = random_.integer(0, below - 1);
    const std::string id = add(StoredTensor::from(numbers));
    writer_.value(id, values_.at(id));
    return id;
  }

  std::string truths(const Shape& shape) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(shape)));
    for (std::byte& truth : bytes) truth = std::byte{random_.chance(0.7)};
    const std::string id = add(StoredTensor(ElementType::boolean, shape, std::move(bytes)));
    writer_.value(id, values_.at(id));
    return id;
  }

  /// Stores a value whole or, at times, in part.
  void keep(const std::string& id, bool may_be_part) {
    const StoredTensor& tensor = values_.at(id);
    const Shape& shape = tensor.shape();
    const double kind = may_be_part ? random_.uniform() : 1.0;
    if (kind < 0.15 && tensor.size() > 0) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.size()); ++i)
        if (random_.chance(0.4)) numbers.push_back(i);
      return writer_.elements(id, tensor, numbers);
    }
    if (kind < 0.3 && shape.size() == 2 && shape[0] > 1) {
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < shape[0]; ++i)
        if (random_.chance(0.5)) rows.push_back(i);
      if (!rows.empty()) return writer_.rows(id, tensor, rows);
    }
    writer_.value(id, tensor);
  }

  const Shape& shape_of(const std::string& id) const { return values_.at(id).shape(); }
  std::int64_t rows() const { return shape_of(current_)[0]; }

  // ---- calls

  /// Calls an op on values and records it. Returns the id of its result.
  std::string call(const std::string& op, const std::vector<std::string>& operands,
                   const Json& attributes = Json::object()) {
    RecordedCall recorded{op, 21, {}, {}};
    for (const auto& item : attributes.items()) recorded.attributes.emplace(item.key(), attribute_of(item.value()));
    for (const std::string& id : operands) {
      const StoredTensor* const tensor = &values_.at(id);
      recorded.operands.push_back(CallOperand{tensor->type(), tensor->shape(), [tensor] { return *tensor; }});
    }
    const CallMeaning meaning = meaning_of(recorded);
    const std::string id = add(evaluated(meaning, operands));
    const Ids given(operands.begin(), operands.end());
    text_ += fmt::format("{} {} -> {} {} {}\n", op, fmt::join(operands, " "), id, driftbound::to_string(shape_of(id)),
                         attributes.dump());
    keep(id, true);
    writer_.record(op, given, {id}, attributes);
    return id;
  }

  /// A view, which is stored nowhere.
  std::string view(const std::string& x, Shape shape) {
    const std::string id = add(StoredTensor(values_.at(x).type(), shape, values_.at(x).bytes(),
                                            std::make_shared<StoredTensor>(values_.at(x))));
    writer_.derived(id, values_.at(id).type(), shape);
    writer_.record("aten::view", {x}, {id}, {{"size", shape}});
    return id;
  }

  /// In float32, every step in an order of its own, the result in the type of the operands.
  StoredTensor evaluated(const CallMeaning& meaning, const std::vector<std::string>& operands) {
    const Graph& graph = meaning.graph;
    std::vector<StoredTensor> values(graph.values.size());
    for (ValueId id = 0; id < values.size(); ++id)
      if (graph.is_constant(id)) values[id] = graph.value(id).constant;
    for (std::size_t i = 0; i < meaning.slots.size(); ++i)
      values[graph.inputs[i]] = values_.at(operands[meaning.slots[i]]);
    const std::vector<bool> varies(graph.values.size(), false);
    for (const Node& node : graph.nodes)
      values[node.output] = evaluated_alone(node, values, varies, cpu_arithmetic("fp32", order_of_step(random_)));
    Tensor<double> result = values[meaning.results.front().value()].to_double();
    return store_exactly(type_, result.shape, rounded(std::move(result.values)));
  }

  std::vector<double> rounded(std::vector<double> values) const {
    for (double& x : values) x = round_to(x, format(*float_format(type_)), Rounding::nearest_even);
    return values;
  }

  // ---- what the program does

  void call_something() {
    const std::int64_t r = rows(), d = width_;
    switch (random_.integer(0, 17)) {
      case 0: {
        const std::int64_t n = random_.integer(1, 12) * 2;
        current_ = call("aten::linear", {current_, fresh({n, d}, Role::weight), fresh({n}, Role::weight)});
        width_ = n;
        return;
      }
      case 1: {
        const std::int64_t n = random_.integer(1, 12) * 2;
        const Json scales = random_.chance(0.5) ? Json::object()
                                                : Json{{"alpha", random_.uniform(-2.0, 2.0)},
                                                       {"beta", random_.pick(std::vector<double>{1.0, -1.0, 0.3})}};
        current_ = call("aten::addmm", {fresh({n}, Role::weight), current_, fresh({d, n}, Role::weight)}, scales);
        width_ = n;
        return;
      }
      case 2:
        return attend();
      case 3: {
        current_ = call("aten::layer_norm", {current_, fresh({d}, Role::weight), fresh({d}, Role::weight)},
                        {{"normalized_shape", {d}}, {"eps", random_.pick(std::vector<double>{1e-5, 1e-6, 1e-3})}});
        return;
      }
      case 4:
        current_ = call("_C::rms_norm", {current_, fresh({d}, Role::weight)}, {{"epsilon", 1e-6}});
        return;
      case 5:
        current_ = call(random_.chance(0.5) ? "aten::_softmax" : "aten::_log_softmax", {current_}, {{"dim", -1}});
        return;
      case 6:
        current_ = call("aten::gelu", {current_}, {{"approximate", random_.chance(0.5) ? "none" : "tanh"}});
        return;
      case 7:
        current_ =
            call(random_.pick(std::vector<std::string>{"aten::silu", "aten::tanh", "aten::sigmoid", "aten::relu",
                                                       "aten::erf", "aten::softplus", "aten::hardswish", "aten::mish"}),
                 {current_});
        return;
      case 8:
        if (d % 2 != 0) return;
        current_ = call("_C::silu_and_mul", {current_});
        width_ = d / 2;
        return;
      case 9: {
        Shape other = {random_.chance(0.5) ? r : 1, random_.chance(0.7) ? d : 1};
        const Json scale = random_.chance(0.5) ? Json::object() : Json{{"alpha", random_.uniform(-2.0, 2.0)}};
        current_ = call(random_.chance(0.5) ? "aten::add" : "aten::sub", {current_, fresh(other, Role::weight)}, scale);
        return;
      }
      case 10:
        current_ = call("aten::mul", {current_}, {{"other", random_.uniform(-2.0, 2.0)}});
        return;
      case 11: {
        std::vector<std::string> parts = {current_};
        for (std::int64_t rank = random_.integer(1, 6); rank > 0; --rank) parts.push_back(fresh({r, d}, Role::input));
        current_ = call("c10d::all_reduce", parts, {{"reduce", random_.chance(0.5) ? "sum" : "mean"}});
        return;
      }
      case 12:
        current_ = call("aten::embedding", {current_, whole_numbers({random_.integer(1, 8)}, r)});
        return;
      case 13:
        call("log_probability", {current_, whole_numbers({r}, d)});
        return;
      case 14:
        call(random_.pick(std::vector<std::string>{"aten::sum", "aten::mean", "aten::amax", "aten::logsumexp"}),
             {current_}, {{"dim", {-1}}, {"keepdim", random_.chance(0.5)}});
        return;
      case 15: {
        const std::string mask = truths({random_.chance(0.5) ? r : 1, d});
        current_ =
            call("aten::masked_fill", {current_, mask}, {{"value", random_.pick(std::vector<double>{0.0, -1.5, 0.1})}});
        return;
      }
      case 16:
        current_ = call("aten::bmm", {view(current_, {1, r, d}), fresh({1, d, 6}, Role::weight)});
        current_ = view(current_, {r, 6});
        width_ = 6;
        return;
      default:
        rotate();
        return;
    }
  }

  /// Queries are rows; keys and values come from outside, shared by groups of heads, some hidden by a mask.
  void attend() {
    const std::int64_t r = rows(), heads = width_ % 4 == 0 ? 2 : 1, size = width_ / heads;
    const std::int64_t key_heads = random_.chance(0.5) ? heads : 1, keys = random_.integer(1, 8);
    const std::string q = view(current_, {1, heads, r, size});
    std::vector<std::string> operands = {q, fresh({1, key_heads, keys, size}, Role::input),
                                         fresh({1, key_heads, keys, 4}, Role::input)};
    Json attributes = {{"enable_gqa", key_heads != heads}};
    if (random_.chance(0.3) && keys >= r) {
      attributes["is_causal"] = true;
    } else if (random_.chance(0.4)) {
      operands.push_back(fresh({r, keys}, Role::weight));
    }
    if (random_.chance(0.3)) attributes["scale"] = random_.uniform(0.1, 1.0);
    call("aten::scaled_dot_product_attention", operands, attributes);
  }

  void rotate() {
    if (width_ % 2 != 0) return;
    const std::int64_t r = rows();
    Tensor<double> cosines({1, r, width_ / 2}), sines = cosines;
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      const double angle = random_.uniform(-3.0, 3.0);
      cosines.values[i] = std::cos(angle);
      sines.values[i] = std::sin(angle);
    }
    const std::string c = add(store(type_, cosines.shape, cosines.values)),
                      s = add(store(type_, sines.shape, sines.values));
    writer_.value(c, values_.at(c));
    writer_.value(s, values_.at(s));
    call("rotary_embedding", {view(current_, {1, 1, r, width_}), c, s}, {{"interleaved", random_.chance(0.5)}});
  }

  Random random_;
  Family data_;
  ElementType type_ = ElementType::f32;
  std::int64_t width_ = 0;
  std::string current_;
  std::map<std::string, StoredTensor> values_;
  test::RecordingWriter writer_;
  std::string text_;
};

void count_alarms(const RecordedRun& run, const std::function<std::string()>& describe, RecordsTally& all) {
  try {
    for (const analysis::LayerSummary& layer : analysis::judge_records(run, {}).comparison.layers) {
      ++all.judged;
      if (layer.status != analysis::Status::violated && layer.status != analysis::Status::improbable) continue;
      ++all.alarms;
      all.tally.failures.push_back(fmt::format("{} is {}\n{}", layer.name, name_of(layer.status), describe()));
    }
  } catch (const Unsupported&) {
    return;  // parts that hold nothing
  }
}

void judge_recording(const RecordedRun& run, Random& random, const std::function<std::string()>& describe,
                     RecordsTally& all) {
  Tally& tally = all.tally;
  for (std::size_t record = 0; record < run.records().size(); ++record) {
    const CutOptions options{random.chance(0.3) ? random.integer(1, 20) : 0, random.bits()};
    cut_record(run, record, options, [&](RecordPart&& part) {
      check_run(
          part.graph, [&] { return std::move(part.trace); },
          [&] { return fmt::format("record {}\n{}", record, describe()); }, {}, tally);
      return true;
    });
  }
  count_alarms(run, describe, all);
  RecordChain chain = chain_records(run, std::int64_t{1} << 30);
  if (!chain.why_not.empty()) return;
  CheckOptions options;
  if (chain.may_round_numbers) {
    const std::span<const BoundRequest> all_requests = every_bound_request();
    options.requests.assign(all_requests.begin(), all_requests.end());
    std::erase(options.requests, BoundRequest(BoundKind::rounded_shadow));
  }
  check_run(
      chain.graph, [&] { return std::move(chain.trace); }, [&] { return "the network of\n" + describe(); }, options,
      tally);
}

}  // namespace

void RecordsTally::merge(const RecordsTally& other) {
  tally.merge(other.tally);
  judged += other.judged;
  alarms += other.alarms;
}

void check_random_records(std::uint64_t seed, RecordsTally& all) {
  const auto describe = [seed](const std::string& text) { return fmt::format("records {:#x}\n{}", seed, text); };
  std::string text;
  try {
    Program program(seed);
    text = program.text();
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / fmt::format("driftbound-records-{:016x}.safetensors", seed);
    program.write(file);
    {
      const RecordedRun run(file);
      Random random(seed + 1);
      judge_recording(
          run, random, [&] { return describe(text); }, all);
    }
    std::filesystem::remove(file);
  } catch (const std::exception& error) {
    all.tally.failures.push_back(fmt::format("exception: {}\n{}", error.what(), describe(text)));
  }
}

}  // namespace driftbound::soundness
