#include "job/hosts/host_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/text.h"

namespace graphpipe {
namespace {

constexpr std::size_t kMostHosts = 65536;
constexpr int kMostSlots = 4096;
constexpr std::size_t kLongestName = 255;  // DNS has 253

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

class NodeList {
 public:
  NodeList(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  std::vector<std::string> expand() {
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t at = 0; at <= text_.size(); ++at) {
      const char c = at < text_.size() ? text_[at] : ',';
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (depth < 0 || depth > 1) fail();
      if (c != ',' || (depth > 0 && at < text_.size())) continue;
      if (depth > 0) fail();
      add_item("", text_.substr(begin, at - begin));
      begin = at + 1;
    }
    return std::move(names_);
  }

 private:
  [[noreturn]] void fail() const {
    throw InputError(
        where_,
        fmt::format("expected a list of hosts such as node[01-03,7],gpu5, found \"{}\"", text_));
  }

  // "node[01-03,7]", "rack[1-2]node[1-4]"; `head`: what stands before it already.
  void add_item(const std::string& head, std::string_view item) {
    const std::size_t open = item.find('[');
    if (head.size() + std::min(open, item.size()) > kLongestName)
      fail();  // and no deeper recursion
    if (open == std::string_view::npos) {
      const std::string name = head + std::string(item);
      if (name.empty() || name.find(' ') != std::string::npos) fail();
      if (names_.size() >= kMostHosts) {
        throw InputError(where_, fmt::format("more than {} hosts", kMostHosts));
      }
      names_.push_back(name);
      return;
    }
    const std::size_t close = item.find(']', open);
    const auto ranges = split_text(item.substr(open + 1, close - open - 1), ',');
    if (ranges.empty()) fail();
    for (const std::string& range : ranges) {
      add_range(head + std::string(item.substr(0, open)), range, item.substr(close + 1));
    }
  }

  void add_range(const std::string& head, const std::string& range, std::string_view rest) {
    const std::size_t dash = range.find('-');
    const std::string from = range.substr(0, dash);
    const std::string to = dash == std::string::npos ? from : range.substr(dash + 1);
    if (!is_number(from) || !is_number(to) || number(from) > number(to)) fail();
    for (int i = number(from); i <= number(to); ++i) {
      add_item(fmt::format("{}{:0{}}", head, i, from.size()), rest);
    }
  }

  std::string_view text_;
  const std::string& where_;
  std::vector<std::string> names_;
};

std::vector<std::string> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string> words(1);
  for (const char c : line) {
    const bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank) words.back() += c;
    if (blank && !words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

HostSlots parse_host(const std::vector<std::string>& words, const std::string& where) {
  std::string name = words.front();
  std::string slots = "1";
  const std::size_t colon = name.find(':');
  bool known = words.size() == 1;
  if (words.size() == 2 && words[1].starts_with("slots=") && colon == std::string::npos) {
    slots = words[1].substr(6);
    known = true;
  } else if (known && colon != std::string::npos) {
    slots = name.substr(colon + 1);
    name.resize(colon);
  }
  // ssh would read a name that begins so as an option of its own.
  if (!known || name.empty() || name.starts_with('-') || name.size() > kLongestName ||
      !is_number(slots) || number(slots) < 1 || number(slots) > kMostSlots) {
    throw InputError(where, fmt::format("expected NAME, NAME slots=N or NAME:N with 1 to {} slots, "
                                        "found \"{}\"",
                                        kMostSlots, fmt::join(words, " ")));
  }
  return {name, number(slots)};
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text, const std::string& where) {
  return NodeList(text, where).expand();
}

std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& file) {
  std::vector<HostSlots> hosts;
  std::map<std::string, std::size_t> places;  // in `hosts`
  int line_number = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (words.empty()) continue;
    const std::string where = fmt::format("{}:{}", file, line_number);
    const HostSlots host = parse_host(words, where);
    const auto [same, fresh] = places.try_emplace(host.host, hosts.size());
    if (fresh) {
      if (hosts.size() == kMostHosts) {
        throw InputError(where, fmt::format("more than {} hosts", kMostHosts));
      }
      hosts.push_back(host);
    } else {
      HostSlots& first = hosts[same->second];
      first.slots += host.slots;
      if (first.slots > kMostSlots) {
        throw InputError(where, fmt::format("more than {} slots of {}", kMostSlots, host.host));
      }
    }
  }
  if (hosts.empty()) throw InputError(file, "names no host; give a line for each, NAME slots=N");
  return hosts;
}

std::vector<int> place_ranks(const std::vector<HostSlots>& hosts, int ranks,
                             const std::string& where) {
  std::vector<int> host_of;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    for (int slot = 0; slot < hosts[h].slots && static_cast<int>(host_of.size()) < ranks; ++slot) {
      host_of.push_back(static_cast<int>(h));
    }
  }
  if (static_cast<int>(host_of.size()) == ranks) return host_of;
  throw InputError(where, fmt::format("the plan has {} ranks, and the hosts have {} slots; give "
                                      "them more, or more hosts",
                                      ranks, host_of.size()));
}

}  // namespace graphpipe
