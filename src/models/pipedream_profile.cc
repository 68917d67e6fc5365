#include "models/pipedream_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "models/imported_graph.h"

namespace graphpipe {
namespace {

constexpr std::string_view kBetween = " -- ";
constexpr std::size_t kMostShown = 40;

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + by.size());
  }
}

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMostShown)) out += c >= ' ' && c < 127 ? c : '?';
  return text.size() > kMostShown ? out + "..." : out;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  PipedreamProfile parse() {
    while (!text_.empty()) {
      ++line_;
      const std::size_t end = text_.find('\n');
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      if (line.front() == '\t') {
        add_edge(line.substr(1));
      } else {
        add_node(line);
      }
    }
    if (profile_.nodes.empty()) throw InputError(file_, "there is no node in it");
    return std::move(profile_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}:{}", file_, line_), what);
  }

  double figure(std::string_view text, std::string_view key, double most) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = error == std::errc() && end == text.data() + text.size();
    if (!read || !(value >= 0 && value <= most)) {
      fail(fmt::format("{}: expected a number from 0 to {:g}, found \"{}\"", key, most,
                       shown(text)));
    }
    return value;
  }

  // A number, or "[a; b; c]", which is summed.
  double figures(std::string_view text, std::string_view key) const {
    if (!text.starts_with('[')) return figure(text, key, kMostImportedFigure);
    if (!text.ends_with(']')) fail(fmt::format("{}: a list without its end, \"]\"", key));
    double sum = 0;
    for (const std::string_view item : split(text.substr(1, text.size() - 2), "; ")) {
      sum += figure(item, key, kMostImportedFigure);
    }
    if (sum > kMostImportedFigure)
      fail(
          fmt::format("{}: the sum is {:g}, expected at most {:g}", key, sum, kMostImportedFigure));
    return sum;
  }

  std::string_view value_of(std::string_view pair, std::string_view key) const {
    if (pair.starts_with(key) && pair.substr(key.size()).starts_with('=')) {
      return pair.substr(key.size() + 1);
    }
    fail(fmt::format("expected \"{}=\", found \"{}\"", key, shown(pair)));
  }

  void add_node(std::string_view line) {
    const std::vector<std::string_view> fields = split(line, kBetween);
    const bool staged = fields.size() == 4 && fields[3].starts_with("stage_id=");
    if (fields.size() != 3 && !staged) {
      fail(
          fmt::format("expected \"ID -- DESCRIPTION -- FIGURES\" or an edge behind a tab, found "
                      "\"{}\"",
                      shown(line)));
    }
    const std::vector<std::string_view> pairs = split(fields[2], ", ");
    if (pairs.size() != 4) fail(fmt::format("expected 4 figures, found {}", pairs.size()));
    PipedreamNode node;
    node.id = fields[0];
    node.description = fields[1];
    const double most_ms = kMostImportedSeconds * 1e3;
    node.forward_ms =
        figure(value_of(pairs[0], "forward_compute_time"), "forward_compute_time", most_ms);
    node.backward_ms =
        figure(value_of(pairs[1], "backward_compute_time"), "backward_compute_time", most_ms);
    node.activation_bytes = figures(value_of(pairs[2], "activation_size"), "activation_size");
    node.parameter_bytes = figures(value_of(pairs[3], "parameter_size"), "parameter_size");
    if (node.id.empty()) fail("the node has no id");
    if (!ids_.try_emplace(node.id, profile_.nodes.size()).second) {
      fail(fmt::format("node \"{}\" stands twice", shown(node.id)));
    }
    if (profile_.nodes.size() == kMostImportedNodes) {
      fail(fmt::format("more than {} nodes, which is too many", kMostImportedNodes));
    }
    profile_.nodes.push_back(std::move(node));
  }

  std::size_t node_of(std::string_view id) const {
    const auto found = ids_.find(std::string(id));
    if (found != ids_.end()) return found->second;
    fail(fmt::format("there is no node \"{}\" before this line", shown(id)));
  }

  void add_edge(std::string_view line) {
    const std::vector<std::string_view> ends = split(line, kBetween);
    if (ends.size() != 2) {
      fail(fmt::format("expected an edge, \"SOURCE -- DESTINATION\", found \"{}\"", shown(line)));
    }
    const std::pair<std::size_t, std::size_t> edge(node_of(ends[0]), node_of(ends[1]));
    if (edge.first == edge.second)
      fail(fmt::format("an edge from \"{}\" to itself", shown(ends[0])));
    if (!known_.insert(edge).second) return;  // the same tensor, read twice
    if (profile_.edges.size() == kMostImportedEdges) {
      fail(fmt::format("more than {} edges, which is too many", kMostImportedEdges));
    }
    profile_.edges.push_back(edge);
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t line_ = 0;
  PipedreamProfile profile_;
  std::unordered_map<std::string, std::size_t> ids_;
  std::set<std::pair<std::size_t, std::size_t>> known_;
};

PipedreamProfile without(const PipedreamProfile& profile, const std::vector<bool>& gone) {
  PipedreamProfile rest;
  std::vector<std::size_t> place(profile.nodes.size());
  for (std::size_t i = 0; i < profile.nodes.size(); ++i) {
    place[i] = rest.nodes.size();
    if (!gone[i]) rest.nodes.push_back(profile.nodes[i]);
  }
  for (const auto& [from, to] : profile.edges) {
    if (!gone[from] && !gone[to]) rest.edges.emplace_back(place[from], place[to]);
  }
  return rest;
}

}  // namespace

PipedreamProfile parse_pipedream(std::string_view text, const std::string& file) {
  if (text.size() > kMostImportedBytes) {
    throw InputError(file,
                     fmt::format("{} bytes, expected at most {}", text.size(), kMostImportedBytes));
  }
  return Parser(text, file).parse();
}

PipedreamProfile without_inputs(const PipedreamProfile& profile) {
  std::vector<bool> gone(profile.nodes.size(), true);
  for (const auto& [from, to] : profile.edges) gone[to] = false;
  for (std::size_t i = 0; i < gone.size(); ++i) {
    gone[i] = gone[i] && profile.nodes[i].description.starts_with("Input");
  }
  const PipedreamProfile rest = without(profile, gone);
  std::vector<bool> sink(rest.nodes.size(), true);
  for (const auto& [from, to] : rest.edges) sink[from] = false;
  for (std::size_t i = 0; i < sink.size(); ++i) {
    sink[i] = sink[i] && rest.nodes[i].description.starts_with("__getitem__");
  }
  return without(rest, sink);
}

Graph pipedream_graph(const PipedreamProfile& profile, const std::string& name,
                      const std::string& file, double seconds_per_unit) {
  ImportedGraph imported;
  imported.name = name;
  const PipedreamProfile kept = without_inputs(profile);
  for (const PipedreamNode& node : kept.nodes) {
    imported.ops.push_back({.name = node.id,
                            .forward_s = node.forward_ms * seconds_per_unit,
                            .backward_s = node.backward_ms * seconds_per_unit,
                            .params_bytes = node.parameter_bytes});
    imported.tensors.push_back({imported.tensors.size(), {}, node.activation_bytes});
  }
  for (const auto& [from, to] : kept.edges) imported.tensors[from].consumers.push_back(to);
  return opaque_graph(imported, file);
}

}  // namespace graphpipe
