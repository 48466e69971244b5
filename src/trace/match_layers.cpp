#include "trace/match_layers.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

constexpr std::size_t most_listed = 50;
constexpr std::size_t most_candidates = 6;

std::string missing_text(const Graph& graph, const std::vector<ExpectedLayer>& expected,
                         const std::vector<std::size_t>& nodes, const std::string& where) {
  std::string text = where + ": the trace lacks layers of the model:";
  for (std::size_t k = 0; k < std::min(nodes.size(), most_listed); ++k) {
    const std::size_t node = nodes[k];
    text += "\n  layer/" + std::to_string(node) + "/" + key_name(graph.nodes[node].name) + "/output " +
            to_string(expected[node].shape);
  }
  if (nodes.size() > most_listed) text += "\n  and " + std::to_string(nodes.size() - most_listed) + " more";
  return text;
}

class Matcher {
public:
  Matcher(const Graph& graph, const std::vector<ExpectedLayer>& expected, const std::vector<RecordedLayer>& recorded,
          const std::function<bool(std::size_t, std::size_t)>& are_same, const std::string& where)
      : graph_(graph),
        expected_(expected),
        recorded_(recorded),
        are_same_(are_same),
        where_(where),
        matches_(graph.nodes.size()),
        taken_(recorded.size(), false),
        contested_(recorded.size(), false) {}

  LayerMatches match() {
    settle_contested();
    match_names([](const Graph&, const Node& node) { return node.name; });
    match_names([](const Graph& graph, const Node& node) { return graph.value(node.output).name; });
    match_without_root();
    match_outputs();
    match_modules();
    match_order();
    LayerMatches result;
    result.of_node = matches_;
    result.copies = copies_;
    result.unplaced = unplaced_;
    return result;
  }

private:
  std::string output_name(std::size_t node) const { return key_name(graph_.value(graph_.nodes[node].output).name); }

  /// A name that is one layer's and that of another one's output belongs to the one of them that no other record names,
  /// else to the layer at the record's index.
  void settle_contested() {
    std::map<std::string, std::vector<std::size_t>> layers, producers;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      layers[key_name(graph_.nodes[i].name)].push_back(i);
      producers[output_name(i)].push_back(i);
    }
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      const auto by_layer = layers.find(recorded_[r].name), by_output = producers.find(recorded_[r].name);
      if (recorded_[r].is_output) continue;
      if (by_layer == layers.end() || by_output == producers.end()) continue;
      contested_[r] = by_layer->second.size() != 1 || by_layer->second != by_output->second;
    }
    while (settle_one()) {
    }
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (!contested_[r] || taken_[r]) continue;
      const std::vector<std::size_t> nodes = claimants(r);
      const auto at = static_cast<std::size_t>(recorded_[r].index);
      if (std::find(nodes.begin(), nodes.end(), at) != nodes.end()) assign(at, r);
    }
  }

  /// Whether there was a record that can be of one node alone.
  bool settle_one() {
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (!contested_[r] || taken_[r]) continue;
      const auto has_name = [&](const RecordedLayer& record) { return record.name == recorded_[r].name; };
      const std::vector<std::size_t> nodes = claimants(r);
      if (nodes.size() != 1 || std::count_if(recorded_.begin(), recorded_.end(), has_name) != 1) continue;
      assign(nodes.front(), r);
      return true;
    }
    return false;
  }

  /// Nodes without a record that have this one's name, but for those whose other name a record has that can be of no
  /// other node.
  std::vector<std::size_t> claimants(std::size_t record) const {
    const std::string& name = recorded_[record].name;
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::string layer = key_name(graph_.nodes[i].name), output = output_name(i);
      if (matches_[i] || (layer != name && output != name)) continue;
      const std::string& other = layer == name ? output : layer;
      bool is_named = false;
      for (std::size_t r = 0; r < recorded_.size(); ++r)
        is_named = is_named || (other != name && !contested_[r] && recorded_[r].name == other);
      if (!is_named) nodes.push_back(i);
    }
    return nodes;
  }

  template <class NameOf>
  void match_names(NameOf name_of_node) {
    std::multimap<std::string, std::size_t> by_name;
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (!taken_[r] && !recorded_[r].is_output) by_name.emplace(recorded_[r].name, r);
    }
    std::map<std::string, std::size_t> nodes_of_name;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!matches_[i]) ++nodes_of_name[key_name(name_of_node(graph_, graph_.nodes[i]))];
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (matches_[i]) continue;
      const std::string name = key_name(name_of_node(graph_, graph_.nodes[i]));
      std::vector<std::size_t> candidates;
      const auto [begin, end] = by_name.equal_range(name);
      for (auto it = begin; it != end; ++it) candidates.push_back(it->second);
      if (const auto chosen = choose(i, candidates, nodes_of_name[name] > 1)) assign(i, *chosen);
    }
  }

  /// Names that occur more than once are told apart by their index.
  std::optional<std::size_t> choose(std::size_t node, const std::vector<std::size_t>& candidates,
                                    bool shared_name) const {
    if (candidates.empty()) return std::nullopt;
    if (candidates.size() == 1 && !shared_name && !contested_[candidates.front()]) return candidates.front();
    for (const std::size_t r : candidates) {
      if (!taken_[r] && recorded_[r].index == static_cast<std::int64_t>(node)) return r;
    }
    if (candidates.size() == 1 && !shared_name) fail_contested(candidates.front());
    std::string keys;
    for (const std::size_t r : candidates) keys += " " + in_quotes(recorded_[r].key);
    throw InvalidArgument(where_ + ": layer " + in_quotes(graph_.nodes[node].name) + " may be any of" + keys +
                          "; give each its position in the network as index");
  }

  /// Records called as a layer, or as its output, but for the '/' in front that exporters write.
  void match_without_root() {
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (taken_[r] || recorded_[r].is_output) continue;
      const std::string path = path_of(recorded_[r].name);
      std::vector<std::size_t> nodes;
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
        if (!matches_[i] && (path_of(key_name(graph_.nodes[i].name)) == path || path_of(output_name(i)) == path))
          nodes.push_back(i);
      if (nodes.size() == 1) assign(nodes.front(), r);
    }
  }

  /// Records of the model's outputs, which have no index.
  void match_outputs() {
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (!recorded_[r].is_output) continue;
      std::optional<std::size_t> found;
      std::string names;
      for (const ValueId id : graph_.outputs) {
        const std::optional<std::size_t> node = graph_.producer(id);
        names += (names.empty() ? "" : ", ") + in_quotes(graph_.value(id).name);
        if (key_name(graph_.value(id).name) == recorded_[r].name) found = node;
        if (key_name(graph_.value(id).name) == recorded_[r].name && !node) taken_[r] = true;  // nothing computes it
      }
      if (taken_[r]) continue;
      if (!found)
        throw InvalidArgument(where_ + ": " + in_quotes(recorded_[r].key) + " is no output of the model, which has " +
                              names);
      assign_or_copy(*found, r, MatchedBy::name);
    }
  }

  /// Records called as a module: the results of the last of its nodes that others read, or that is an output. Exporters
  /// call the nodes of its later calls <module>_1, <module>_2 …; what records a module once has its last call.
  void match_modules() {
    const std::vector<bool> depends = depends_on_input(graph_);
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (taken_[r] || recorded_[r].is_output) continue;
      const std::string path = last_call_of(path_of(recorded_[r].name));
      std::vector<bool> is_inside;
      for (const Node& node : graph_.nodes) is_inside.push_back(is_inside_of(node, path));
      std::vector<bool> leaves(graph_.values.size(), false);
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
        for (const ValueId id : graph_.nodes[i].inputs) leaves[id] = leaves[id] || !is_inside[i];
      for (const ValueId id : graph_.outputs) leaves[id] = true;
      for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
        const ValueId output = graph_.nodes[i].output;
        if (!is_inside[i] || !leaves[output] || !depends[output] || !expected_[i].fits(recorded_[r].shape)) continue;
        assign_or_copy(i, r, MatchedBy::module_path);
        break;
      }
    }
  }

  static std::string path_of(const std::string& name) { return name.starts_with('.') ? name.substr(1) : name; }

  bool is_inside_of(const Node& node, const std::string& path) const {
    return is_below(path_of(key_name(node.name)), path) || is_below(module_path(node.name), path);
  }

  /// <module>_2 where the graph has nodes of it, and no record is called so.
  std::string last_call_of(const std::string& module) const {
    std::string last = module;
    for (int call = 1; !module.empty(); ++call) {
      const std::string path = module + "_" + std::to_string(call);
      const auto is_it = [&](const RecordedLayer& record) { return path_of(record.name) == path; };
      if (std::any_of(recorded_.begin(), recorded_.end(), is_it)) return module;
      const auto is_inside = [&](const Node& node) { return is_inside_of(node, path); };
      if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), is_inside)) break;
      last = path;
    }
    return last;
  }

  static bool is_below(const std::string& name, const std::string& path) {
    return path.empty() || name.starts_with(path + ".");
  }

  /// "b.0.attn.MatMul" for the name "/b/b.0/attn/MatMul": children of a sequence bear its name as well.
  static std::string module_path(const std::string& name) {
    std::vector<std::string> parts = {""};
    for (const char c : name) {
      if (c == '/') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    std::string path;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool is_repeated = i + 1 < parts.size() && is_below(parts[i + 1], parts[i]);
      if (!is_repeated && !parts[i].empty()) path += (path.empty() ? "" : ".") + parts[i];
    }
    return path;
  }

  /// Modules within each other have one result.
  void assign_or_copy(std::size_t node, std::size_t record, MatchedBy by) {
    if (!matches_[node]) return assign(node, record, by);
    const std::size_t other = matches_[node]->recorded;
    if (!are_same_(other, record))
      throw InvalidArgument(where_ + ": " + in_quotes(recorded_[other].key) + " and " +
                            in_quotes(recorded_[record].key) + " are both of layer " +
                            in_quotes(graph_.nodes[node].name) + " and hold other numbers; leave one out");
    taken_[record] = true;
    copies_.push_back(record);
  }

  void match_order() {
    std::vector<std::size_t> nodes, rest;
    for (std::size_t i = 0; i < matches_.size(); ++i) {
      if (!matches_[i]) nodes.push_back(i);
    }
    for (std::size_t r = 0; r < recorded_.size(); ++r) {
      if (!taken_[r]) rest.push_back(r);
    }
    if (nodes.empty()) {
      for (const std::size_t r : rest) (is_copy(r) ? copies_ : unplaced_).push_back(r);
      return;
    }
    if (rest.empty() && nodes.size() == matches_.size()) fail_missing(nodes);
    std::stable_sort(rest.begin(), rest.end(),
                     [&](std::size_t a, std::size_t b) { return recorded_[a].index < recorded_[b].index; });
    if (match_every_node(nodes, rest) || match_every_record(nodes, rest)) return;
    std::vector<std::size_t> others;
    for (const std::size_t r : rest) (is_copy(r) ? copies_ : others).push_back(r);
    if (others.size() < rest.size() && match_every_record(nodes, others)) return;
    if (nodes.size() == matches_.size()) fail_unplaced(nodes, others);
    unplaced_ = std::move(others);
  }

  bool is_copy(std::size_t record) const {
    return std::any_of(matches_.begin(), matches_.end(), [&](const std::optional<LayerMatch>& match) {
      return match && are_same_(match->recorded, record);
    });
  }

  /// Gives every node a record, where there are as many; records may be left over. Returns false where some node would
  /// have none.
  bool match_every_node(const std::vector<std::size_t>& nodes, const std::vector<std::size_t>& rest) {
    // The assignment that takes every record as early as possible and the one that takes it as late as possible
    // agree if and only if there is just one.
    const auto earliest = assignment(nodes, rest);
    if (!earliest) return false;
    auto latest = assignment({nodes.rbegin(), nodes.rend()}, {rest.rbegin(), rest.rend()});
    std::reverse(latest->begin(), latest->end());
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if ((*earliest)[k] != (*latest)[k]) {
        throw InvalidArgument(where_ + ": no tensor is named after layer " + in_quotes(graph_.nodes[nodes[k]].name) +
                              ", and by order and shape it may be " + in_quotes(recorded_[(*earliest)[k]].key) +
                              " or " + in_quotes(recorded_[(*latest)[k]].key) + "; use the model's layer names");
      }
    }
    for (std::size_t k = 0; k < nodes.size(); ++k) assign(nodes[k], (*earliest)[k], MatchedBy::order);
    return true;
  }

  /// Gives every record a node, where only one way keeps order and shape.
  bool match_every_record(const std::vector<std::size_t>& nodes, const std::vector<std::size_t>& rest) {
    const auto place_all = [&](auto node, auto last, const std::vector<std::size_t>& records) {
      std::vector<std::size_t> chosen;
      for (const std::size_t r : records) {
        node = std::find_if(node, last, [&](std::size_t i) { return expected_[i].fits(recorded_[r].shape); });
        if (node == last) break;
        chosen.push_back(*node++);
      }
      return chosen;
    };
    const std::vector<std::size_t> earliest = place_all(nodes.begin(), nodes.end(), rest);
    std::vector<std::size_t> latest = place_all(nodes.rbegin(), nodes.rend(), {rest.rbegin(), rest.rend()});
    std::reverse(latest.begin(), latest.end());
    if (earliest.size() != rest.size() || earliest != latest) return false;
    for (std::size_t k = 0; k < rest.size(); ++k) assign(earliest[k], rest[k], MatchedBy::order);
    return true;
  }

  /// For every node, in turn, the first record not yet passed that fits; empty where one is left without.
  std::optional<std::vector<std::size_t>> assignment(const std::vector<std::size_t>& nodes,
                                                     const std::vector<std::size_t>& rest) const {
    std::vector<std::size_t> chosen;
    auto next = rest.begin();
    for (const std::size_t node : nodes) {
      next = std::find_if(next, rest.end(), [&](std::size_t r) { return expected_[node].fits(recorded_[r].shape); });
      if (next == rest.end()) return std::nullopt;
      chosen.push_back(*next++);
    }
    return chosen;
  }

  void assign(std::size_t node, std::size_t record, MatchedBy by = MatchedBy::name) {
    matches_[node] = LayerMatch{record, by};
    taken_[record] = true;
  }

  [[noreturn]] void fail_contested(std::size_t record) const {
    const std::string& name = recorded_[record].name;
    std::string layers;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (key_name(graph_.nodes[i].name) == name || output_name(i) == name)
        layers += (layers.empty() ? "" : " or ") + in_quotes(graph_.nodes[i].name);
    throw InvalidArgument(where_ + ": " + in_quotes(recorded_[record].key) + " may be of layer " + layers +
                          ": its name is one layer's and that of another one's output; give it its layer's position in "
                          "the network as index");
  }

  [[noreturn]] void fail_missing(const std::vector<std::size_t>& nodes) const {
    throw InvalidArgument(missing_text(graph_, expected_, nodes, where_));
  }

  /// Lists records of no layer, or of more than one, with the layers that they may be of.
  [[noreturn]] void fail_unplaced(const std::vector<std::size_t>& nodes,
                                  const std::vector<std::size_t>& records) const {
    std::string text =
        where_ + ": no layer is named as these records, and by order and shape they may be of several or of none:";
    for (std::size_t k = 0; k < std::min(records.size(), most_listed); ++k) {
      const RecordedLayer& record = recorded_[records[k]];
      std::vector<std::string> candidates;
      for (const std::size_t i : nodes)
        if (expected_[i].fits(record.shape)) candidates.push_back(in_quotes(graph_.nodes[i].name));
      text += "\n  " + in_quotes(record.key) + " " + to_string(record.shape) + ": ";
      if (candidates.empty()) text += "no other layer has this shape";
      for (std::size_t c = 0; c < std::min(candidates.size(), most_candidates); ++c)
        text += (c == 0 ? "" : ", ") + candidates[c];
      if (candidates.size() > most_candidates)
        text += " and " + std::to_string(candidates.size() - most_candidates) + " more";
    }
    if (records.size() > most_listed) text += "\n  and " + std::to_string(records.size() - most_listed) + " more";
    throw InvalidArgument(text + "\nuse the model's layer names, or leave these records out");
  }

  const Graph& graph_;
  const std::vector<ExpectedLayer>& expected_;
  const std::vector<RecordedLayer>& recorded_;
  const std::function<bool(std::size_t, std::size_t)>& are_same_;
  const std::string& where_;
  std::vector<std::optional<LayerMatch>> matches_;
  std::vector<bool> taken_;
  std::vector<std::size_t> copies_, unplaced_;
  std::vector<bool> contested_;  ///< records whose name is a layer's and that of another one's output
};

}  // namespace

std::string key_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

LayerMatches match_layers(const Graph& graph, const std::vector<ExpectedLayer>& expected,
                          const std::vector<RecordedLayer>& recorded,
                          const std::function<bool(std::size_t, std::size_t)>& are_same, const std::string& where) {
  return Matcher(graph, expected, recorded, are_same, where).match();
}

void require_all(const Graph& graph, const std::vector<ExpectedLayer>& expected, const LayerMatches& matches,
                 const std::string& where) {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < matches.of_node.size(); ++i)
    if (!matches.of_node[i]) missing.push_back(i);
  if (!missing.empty()) throw InvalidArgument(missing_text(graph, expected, missing, where));
}

}  // namespace driftbound
