#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

// RNN, GRU and LSTM, one group of steps for every element of the sequence. Values have the samples on axis 0, whatever
// the layout of the node.

namespace driftbound::onnx {
namespace {

using Input = MappedOps::Input;
using MaybeInput = std::optional<Input>;

// Inputs of the nodes.
constexpr std::size_t sequence = 0, weights = 1, recurrences = 2, biases = 3, lengths = 4, initial_state = 5,
                      initial_cell = 6, peepholes = 7;

// ---- attributes -----------------------------------------------------------------------------------------------------

struct Activation {
  std::string name;
  double alpha = 0.0, beta = 0.0;
};

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

/// The activations with numbers of their own, and the defaults of these (ONNX has none for Affine and ScaledTanh).
struct Coefficients {
  std::string_view name;
  std::optional<float> alpha, beta;
  bool has_alpha = true, has_beta = false;
};
constexpr std::array<Coefficients, 5> coefficients = {{
    {"affine", std::nullopt, std::nullopt, true, true},
    {"leakyrelu", 0.01f, std::nullopt, true, false},
    {"scaledtanh", std::nullopt, std::nullopt, true, true},
    {"hardsigmoid", 0.2f, 0.5f, true, true},
    {"elu", 1.0f, std::nullopt, true, false},
}};
constexpr std::array<std::string_view, 5> without_coefficients = {"sigmoid", "tanh", "relu", "softsign", "softplus"};

const Coefficients* coefficients_of(std::string_view name) {
  const auto found = std::find_if(coefficients.begin(), coefficients.end(),
                                  [&](const Coefficients& each) { return each.name == name; });
  return found == coefficients.end() ? nullptr : &*found;
}

/// Numbers of a list are taken in the order of the activations that have such a number.
/// Throws:    Unsupported for a list of another length: it has numbers for other activations too
void take_numbers(const NodeView& node, std::string_view attribute_name, std::vector<Activation>& activations,
                  bool Coefficients::*has, std::optional<float> Coefficients::*fallback, double Activation::*number) {
  std::vector<Activation*> takers;
  for (Activation& each : activations) {
    const Coefficients* own = coefficients_of(each.name);
    if (own != nullptr && own->*has) takers.push_back(&each);
  }
  const auto attribute = find_attribute(node.proto, attribute_name, AttributeType::reals);
  if (attribute) {
    const Tensor<double> numbers = to_float_vector(attribute->reals).to_double();
    if (numbers.size() != takers.size())
      throw Unsupported("attribute " + in_quotes(attribute_name) + " has " + std::to_string(numbers.size()) +
                        " numbers for " + std::to_string(takers.size()) + " activations that take one");
    for (std::size_t i = 0; i < takers.size(); ++i) takers[i]->*number = numbers.values[i];
    return;
  }
  for (Activation* each : takers) {
    const std::optional<float> usual = coefficients_of(each->name)->*fallback;
    if (!usual) throw Unsupported("the activation " + in_quotes(each->name) + " has no " + std::string(attribute_name));
    each->*number = static_cast<double>(*usual);
  }
}

/// As many for every direction as `usual` has.
std::vector<Activation> activations_of(const NodeView& node, const std::vector<std::string_view>& usual,
                                       std::size_t directions) {
  std::vector<Activation> result;
  const auto attribute = find_attribute(node.proto, "activations", AttributeType::strings);
  if (attribute && attribute->text_count > 0) {
    if (attribute->text_count != usual.size() * directions)
      fail("attribute 'activations' lists " + std::to_string(attribute->text_count) + " functions where " +
           std::to_string(usual.size() * directions) + " are needed");
    for (const std::string_view name : attribute->texts) result.push_back({lower_case(name)});
  } else {
    for (std::size_t i = 0; i < usual.size() * directions; ++i) result.push_back({lower_case(usual[i % usual.size()])});
  }
  for (const Activation& each : result) {
    const bool is_plain =
        std::find(without_coefficients.begin(), without_coefficients.end(), each.name) != without_coefficients.end();
    if (!is_plain && coefficients_of(each.name) == nullptr)
      throw Unsupported("the activation " + in_quotes(each.name) + " is not known");
  }
  take_numbers(node, "activation_alpha", result, &Coefficients::has_alpha, &Coefficients::alpha, &Activation::alpha);
  take_numbers(node, "activation_beta", result, &Coefficients::has_beta, &Coefficients::beta, &Activation::beta);
  return result;
}

// ---- what all of them share -----------------------------------------------------------------------------------------

/// What a node says of itself.
struct Layout {
  bool has_samples_first = false;  ///< [N, S, I] rather than [S, N, I]
  bool is_first_reversed = false;
  std::size_t directions = 1;
  std::int64_t length = 0, hidden = 0;
  std::optional<double> clip;
};

Layout layout_of(const NodeView& node, std::int64_t gates) {
  require_since(node, "layout", 14);
  Layout layout;
  layout.has_samples_first = integer_or(node.proto, "layout", 0) != 0;
  const std::string_view direction = text_or(node.proto, "direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail("attribute 'direction' is " + in_quotes(direction));
  layout.directions = direction == "bidirectional" ? 2 : 1;
  layout.is_first_reversed = direction == "reverse";

  const auto matrices = shape_of(node, recurrences);
  if (!matrices) throw Unsupported("its weights are computed, and of no known shape");
  layout.hidden = matrices->empty() ? 0 : matrices->back();
  const Shape expected = {static_cast<std::int64_t>(layout.directions), gates * layout.hidden, layout.hidden};
  if (layout.hidden < 1 || *matrices != expected)
    throw ShapeMismatch("its recurrence weights are " + to_string(*matrices) + ", where " + to_string(expected) +
                        " is expected");
  if (integer_or(node.proto, "hidden_size", layout.hidden) != layout.hidden)
    throw ShapeMismatch("attribute 'hidden_size' is not the " + std::to_string(layout.hidden) + " of its weights");

  const OpenShape* x = node.operands[sequence].shape;
  if (x != nullptr && x->size() != 3) throw ShapeMismatch("its input is no sequence of rows: it has not three axes");
  const Extent length = x == nullptr ? Extent::unknown() : (*x)[layout.has_samples_first ? 1 : 0];
  if (!length.is_number())
    throw Unsupported("the length of its sequence is not known when loading; export the model with a fixed one");
  constexpr std::int64_t longest = 1024;
  layout.length = length.value();
  if (layout.length < 1 || layout.length > longest)
    throw Unsupported("a sequence of " + std::to_string(layout.length) +
                      " elements; 1 to 1024 are supported, each with steps of its own");
  constexpr std::size_t bytes_each = 16384;
  if (!node.allowance.take(0, static_cast<std::size_t>(layout.length) * layout.directions * bytes_each))
    throw Unsupported("a sequence of more elements than a file of this size justifies");

  if (find_attribute(node.proto, "clip", AttributeType::real)) layout.clip = real_or(node.proto, "clip", 0.0f);
  if (layout.clip && !(*layout.clip > 0.0)) throw Unsupported("a clip that is not positive");
  return layout;
}

/// Throws:    Unsupported unless every sample has the whole sequence
void require_whole_sequences(const NodeView& node, const Layout& layout) {
  if (!is_given(node, lengths)) return;
  const StoredTensor* constant = node.operands[lengths].constant;
  if (constant == nullptr)
    throw Unsupported("the lengths of its sequences are computed; export the model without them (sequence_lens)");
  const Tensor<std::int64_t> values = constant->to_int64();
  const bool are_whole = std::all_of(values.values.begin(), values.values.end(),
                                     [&](std::int64_t value) { return value == layout.length; });
  if (!are_whole) throw Unsupported("sequences shorter than the axis (sequence_lens); export the model without them");
}

bool is_output_used(const NodeView& node, std::size_t output) {
  return output < node.is_used.size() && node.is_used[output];
}

/// The steps of one node.
class Unroller {
public:
  Unroller(const NodeView& node, const Layout& layout) : node_(node), layout_(layout), steps_(node) {
    x_ = steps_.slot(sequence);
    if (!layout_.has_samples_first) x_ = steps_.apply(op::Transpose{{1, 0, 2}}, {x_});
  }

  StepWriter& steps() { return steps_; }
  const Layout& layout() const { return layout_; }
  std::int64_t hidden() const { return layout_.hidden; }
  bool has(std::size_t slot) const { return is_given(node_, slot); }

  /// Of an input with an axis 0 of directions.
  Input of_direction(std::size_t slot, std::size_t direction) {
    return steps_.element(steps_.slot(slot), 0, static_cast<std::int64_t>(direction));
  }
  /// `count` gates from `first` on, along the last axis.
  Input gates(Input x, std::int64_t first, std::int64_t count) {
    return steps_.part(x, -1, first * hidden(), count * hidden());
  }
  /// … along axis 0 of a matrix of weights.
  Input rows(Input x, std::int64_t first, std::int64_t count) {
    return steps_.part(x, 0, first * hidden(), count * hidden());
  }

  /// X W^T for the whole sequence, [N, S, gates hidden].
  Input products(std::size_t direction) {
    const Input transposed = steps_.apply(op::Transpose{{1, 0}}, {of_direction(weights, direction)});
    return steps_.apply(op::MatMul{}, {x_, transposed});
  }
  /// Row t of the sequence, for every sample.
  Input at(Input rows_of_sequence, std::int64_t t) { return steps_.element(rows_of_sequence, 1, t); }

  /// The state that a sequence starts from, [N, hidden]; empty where it is 0.
  MaybeInput initial(std::size_t slot, std::size_t direction) {
    if (!has(slot)) return std::nullopt;
    const StoredTensor* constant = node_.operands[slot].constant;
    if (constant != nullptr && is_float(constant->type())) {
      const Tensor<double> values = constant->to_double();
      if (std::all_of(values.values.begin(), values.values.end(), [](double value) { return value == 0.0; }))
        return std::nullopt;
    }
    return steps_.element(steps_.slot(slot), layout_.has_samples_first ? 1 : 0, static_cast<std::int64_t>(direction));
  }

  /// state R^T + addend
  Input recurrence(MaybeInput state, Input matrix, Input addend) {
    if (!state) return addend;
    return steps_.apply(op::Gemm{1.0, 1.0, false, true}, {*state, matrix, addend});
  }

  Input activated(const Activation& how, Input x) {
    if (layout_.clip) x = steps_.apply(op::Clip{-*layout_.clip, *layout_.clip}, {x});
    if (how.name == "sigmoid") return steps_.apply(op::Sigmoid{}, {x});
    if (how.name == "tanh") return steps_.apply(op::Tanh{}, {x});
    if (how.name == "relu") return steps_.apply(op::Relu{}, {x});
    if (how.name == "softsign") return steps_.apply(op::Softsign{}, {x});
    if (how.name == "softplus") return steps_.apply(op::Softplus{}, {x});
    if (how.name == "leakyrelu") return steps_.apply(op::LeakyRelu{how.alpha}, {x});
    if (how.name == "hardsigmoid") return steps_.apply(op::HardSigmoid{how.alpha, how.beta}, {x});
    if (how.name == "elu") return steps_.apply(op::Elu{how.alpha}, {x});
    const Input alpha = steps_.number(how.alpha), beta = steps_.number(how.beta);
    if (how.name == "affine") return steps_.add(steps_.multiply(alpha, x), beta);
    return steps_.multiply(alpha, steps_.apply(op::Tanh{}, {steps_.multiply(beta, x)}));  // ScaledTanh
  }

  /// Calls `step(t)` for every element, in the order of the direction.
  template <class Step>
  void for_elements(std::size_t direction, Step step) const {
    const bool is_reversed = direction == 1 || layout_.is_first_reversed;
    for (std::int64_t i = 0; i < layout_.length; ++i) step(is_reversed ? layout_.length - 1 - i : i);
  }

  /// The states of all elements, by [t * directions + direction], as the node's first output; states at the end, by
  /// direction, as the others.
  Mapping finish(const std::vector<Input>& states, const std::vector<std::vector<Input>>& last) {
    const auto directions = static_cast<std::int64_t>(layout_.directions);
    std::vector<Input> outputs(1 + last.size(), steps_.slot(sequence));  // for those that nothing reads
    if (is_output_used(node_, 0)) {
      const Input all = steps_.reshape(joined(states), {0, layout_.length, directions, hidden()});
      outputs[0] = layout_.has_samples_first ? all : steps_.apply(op::Transpose{{1, 2, 0, 3}}, {all});
    }
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (!is_output_used(node_, i + 1)) continue;
      const Input all = steps_.reshape(joined(last[i]), {0, directions, hidden()});
      outputs[i + 1] = layout_.has_samples_first ? all : steps_.apply(op::Transpose{{1, 0, 2}}, {all});
    }
    return steps_.finish(std::move(outputs));
  }

private:
  Input joined(const std::vector<Input>& parts) {
    return parts.size() == 1 ? parts.front() : steps_.apply(op::Concat{1}, parts);
  }

  const NodeView& node_;
  Layout layout_;
  StepWriter steps_;
  Input x_;
};

/// Both biases of a direction added: [gates hidden].
Input bias_of(Unroller& unroller, std::size_t direction, std::int64_t gates) {
  const Input both = unroller.of_direction(biases, direction);
  const Input of_input = unroller.gates(both, 0, gates), of_state = unroller.gates(both, gates, gates);
  return unroller.steps().add(of_input, of_state);
}

std::vector<Activation> of_one_direction(const std::vector<Activation>& all, std::size_t direction, std::size_t each) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(direction * each);
  return {first, first + static_cast<std::ptrdiff_t>(each)};
}

/// States of all elements in the order in which outputs list them.
struct States {
  explicit States(const Layout& layout)
      : directions(layout.directions), all(static_cast<std::size_t>(layout.length) * layout.directions) {}
  Input& at(std::int64_t t, std::size_t direction) { return all[static_cast<std::size_t>(t) * directions + direction]; }

  std::size_t directions;
  std::vector<Input> all, last;
};

// ---- RNN ------------------------------------------------------------------------------------------------------------

/// H = f(X W^T + H R^T + Wb + Rb)
Mapping map_rnn(const NodeView& node) {
  const Layout layout = layout_of(node, 1);
  require_whole_sequences(node, layout);
  const std::vector<Activation> activations = activations_of(node, {"Tanh"}, layout.directions);
  Unroller unroller(node, layout);
  States states(layout);
  for (std::size_t direction = 0; direction < layout.directions; ++direction) {
    Input products = unroller.products(direction);
    if (unroller.has(biases)) products = unroller.steps().add(products, bias_of(unroller, direction, 1));
    const Input matrix = unroller.of_direction(recurrences, direction);
    MaybeInput state = unroller.initial(initial_state, direction);
    unroller.for_elements(direction, [&](std::int64_t t) {
      state = unroller.activated(activations[direction], unroller.recurrence(state, matrix, unroller.at(products, t)));
      states.at(t, direction) = *state;
    });
    states.last.push_back(*state);
  }
  return unroller.finish(states.all, {states.last});
}

// ---- GRU ------------------------------------------------------------------------------------------------------------

/// Weights and biases of one direction of a GRU. Gates are z, r, h.
struct Gru {
  Input products;  ///< X W^T and the biases that are added to it
  Input matrix, matrix_zr, matrix_h;
  MaybeInput state_bias;  ///< Rb, where the reset gate multiplies behind the matrix
  std::vector<Activation> activations;
  bool resets_behind = false;
};

/// z = f(X Wz^T + H Rz^T + …), r likewise, h = g(X Wh^T + (r H) Rh^T + …), or … + r (H Rh^T + Rbh) …;
/// the new state is (1 - z) h + z H.
Input next_gru_state(Unroller& unroller, const Gru& gru, MaybeInput state, Input products, Input one) {
  StepWriter& steps = unroller.steps();
  Input update, reset, candidate;
  if (gru.resets_behind) {
    MaybeInput recurrent = gru.state_bias;
    if (state) {
      std::vector<Input> operands = {*state, gru.matrix};
      if (gru.state_bias) operands.push_back(*gru.state_bias);
      recurrent = steps.apply(op::Gemm{1.0, 1.0, false, true}, operands);
    }
    Input gates = unroller.gates(products, 0, 2);
    if (recurrent) gates = steps.add(gates, unroller.gates(*recurrent, 0, 2));
    gates = unroller.activated(gru.activations[0], gates);
    update = unroller.gates(gates, 0, 1);
    candidate = unroller.gates(products, 2, 1);
    if (recurrent) {
      reset = unroller.gates(gates, 1, 1);
      candidate = steps.add(candidate, steps.multiply(reset, unroller.gates(*recurrent, 2, 1)));
    }
  } else {
    Input gates = unroller.recurrence(state, gru.matrix_zr, unroller.gates(products, 0, 2));
    gates = unroller.activated(gru.activations[0], gates);
    update = unroller.gates(gates, 0, 1);
    candidate = unroller.gates(products, 2, 1);
    if (state) {
      reset = unroller.gates(gates, 1, 1);
      candidate = unroller.recurrence(steps.multiply(reset, *state), gru.matrix_h, candidate);
    }
  }
  candidate = unroller.activated(gru.activations[1], candidate);
  const Input fresh = steps.multiply(steps.subtract(one, update), candidate);
  return state ? steps.add(fresh, steps.multiply(update, *state)) : fresh;
}

Gru gru_of(Unroller& unroller, std::size_t direction, bool resets_behind) {
  Gru gru;
  gru.resets_behind = resets_behind;
  gru.products = unroller.products(direction);
  if (unroller.has(biases)) {
    if (resets_behind) {
      const Input both = unroller.of_direction(biases, direction);
      gru.products = unroller.steps().add(gru.products, unroller.gates(both, 0, 3));
      gru.state_bias = unroller.gates(both, 3, 3);
    } else {
      gru.products = unroller.steps().add(gru.products, bias_of(unroller, direction, 3));
    }
  }
  gru.matrix = unroller.of_direction(recurrences, direction);
  if (!resets_behind) {
    gru.matrix_zr = unroller.rows(gru.matrix, 0, 2);
    gru.matrix_h = unroller.rows(gru.matrix, 2, 1);
  }
  return gru;
}

Mapping map_gru(const NodeView& node) {
  const Layout layout = layout_of(node, 3);
  require_whole_sequences(node, layout);
  const std::vector<Activation> activations = activations_of(node, {"Sigmoid", "Tanh"}, layout.directions);
  const bool resets_behind = integer_or(node.proto, "linear_before_reset", 0) != 0;
  Unroller unroller(node, layout);
  States states(layout);
  const Input one = unroller.steps().number(1.0);
  for (std::size_t direction = 0; direction < layout.directions; ++direction) {
    Gru gru = gru_of(unroller, direction, resets_behind);
    gru.activations = of_one_direction(activations, direction, 2);
    MaybeInput state = unroller.initial(initial_state, direction);
    unroller.for_elements(direction, [&](std::int64_t t) {
      state = next_gru_state(unroller, gru, state, unroller.at(gru.products, t), one);
      states.at(t, direction) = *state;
    });
    states.last.push_back(*state);
  }
  return unroller.finish(states.all, {states.last});
}

// ---- LSTM -----------------------------------------------------------------------------------------------------------

/// One direction of an LSTM. Gates are i, o, f, c; peepholes i, o, f.
struct Lstm {
  Input products, matrix;
  std::array<MaybeInput, 3> peepholes;
  std::vector<Activation> activations;
};

struct LstmState {
  MaybeInput state, cell;
};

/// The gate with the cell that it sees, times a weight for each element.
Input seeing(Unroller& unroller, Input gate, const MaybeInput& peephole, const MaybeInput& cell) {
  if (!peephole || !cell) return gate;
  return unroller.steps().add(gate, unroller.steps().multiply(*peephole, *cell));
}

/// C = f(… + Pf C) C + f(… + Pi C) g(…), H = f(… + Po C) h(C)
LstmState next_lstm_state(Unroller& unroller, const Lstm& lstm, const LstmState& before, Input products) {
  StepWriter& steps = unroller.steps();
  const Activation &f = lstm.activations[0], &g = lstm.activations[1], &h = lstm.activations[2];
  const Input all = unroller.recurrence(before.state, lstm.matrix, products);
  Input input = seeing(unroller, unroller.gates(all, 0, 1), lstm.peepholes[0], before.cell);
  input = unroller.activated(f, input);
  const Input candidate = unroller.activated(g, unroller.gates(all, 3, 1));
  Input cell = steps.multiply(input, candidate);
  if (before.cell) {
    Input forget = seeing(unroller, unroller.gates(all, 2, 1), lstm.peepholes[2], before.cell);
    forget = unroller.activated(f, forget);
    cell = steps.add(steps.multiply(forget, *before.cell), cell);
  }
  Input output = seeing(unroller, unroller.gates(all, 1, 1), lstm.peepholes[1], cell);
  output = unroller.activated(f, output);
  const Input shown = unroller.activated(h, cell);
  return {steps.multiply(output, shown), cell};
}

Lstm lstm_of(Unroller& unroller, std::size_t direction) {
  Lstm lstm;
  lstm.products = unroller.products(direction);
  if (unroller.has(biases)) lstm.products = unroller.steps().add(lstm.products, bias_of(unroller, direction, 4));
  lstm.matrix = unroller.of_direction(recurrences, direction);
  if (unroller.has(peepholes)) {
    const Input all = unroller.of_direction(peepholes, direction);
    for (std::size_t gate = 0; gate < 3; ++gate)
      lstm.peepholes[gate] = unroller.gates(all, static_cast<std::int64_t>(gate), 1);
  }
  return lstm;
}

Mapping map_lstm(const NodeView& node) {
  if (integer_or(node.proto, "input_forget", 0) != 0)
    return NotMapped{"couples the input and the forget gate (input_forget)"};
  if (find_attribute(node.proto, "clip", AttributeType::real))
    return NotMapped{"a clip, which some runtimes apply to the state of the cell as well and others do not"};
  const Layout layout = layout_of(node, 4);
  require_whole_sequences(node, layout);
  const std::vector<Activation> activations = activations_of(node, {"Sigmoid", "Tanh", "Tanh"}, layout.directions);
  Unroller unroller(node, layout);
  States states(layout);
  std::vector<Input> cells;
  for (std::size_t direction = 0; direction < layout.directions; ++direction) {
    Lstm lstm = lstm_of(unroller, direction);
    lstm.activations = of_one_direction(activations, direction, 3);
    LstmState state{unroller.initial(initial_state, direction), unroller.initial(initial_cell, direction)};
    unroller.for_elements(direction, [&](std::int64_t t) {
      state = next_lstm_state(unroller, lstm, state, unroller.at(lstm.products, t));
      states.at(t, direction) = *state.state;
    });
    states.last.push_back(*state.state);
    cells.push_back(*state.cell);
  }
  return unroller.finish(states.all, {states.last, cells});
}

constexpr std::string_view limits =
    "since opset 7, a sequence of known length, at most 1024, with steps for each element; no sequence_lens";

constexpr std::array<Rule, 3> rules = {{
    {"RNN",
     3,
     6,
     composes(map_rnn, limits),
     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout"},
     7},
    {"GRU",
     3,
     6,
     composes(map_gru, limits),
     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout",
      "linear_before_reset"},
     7},
    {"LSTM",
     3,
     8,
     composes(map_lstm, limits),
     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget",
      "layout"},
     7},
}};

}  // namespace

std::span<const Rule> recurrent_rules() {
  return rules;
}

}  // namespace driftbound::onnx
