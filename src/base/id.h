// Ids that do not mix: an OpId is not a StageId, though both are numbers.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace graphpipe {

// An index into the array that owns the things of its kind. Default: none.
template <typename Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}

  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using OpId = Id<struct OpTag>;
using TensorId = Id<struct TensorTag>;
using ParamId = Id<struct ParamTag>;
using DeviceId = Id<struct DeviceTag>;
using StageId = Id<struct StageTag>;
using EdgeId = Id<struct EdgeTag>;
using RankId = Id<struct RankTag>;

}  // namespace graphpipe

template <typename Tag>
struct std::hash<graphpipe::Id<Tag>> {
  std::size_t operator()(const graphpipe::Id<Tag>& id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};
