#include "runtime/version_store.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "base/error.h"

namespace graphpipe {

VersionStore::VersionStore(const std::vector<at::Tensor>& masters, std::vector<ParamId> trained)
    : masters_(masters), trained_(std::move(trained)) {}

void VersionStore::begin() {
  GP_CHECK(kept_.empty(), "version {} of the weights is kept at the end of a stream",
           kept_.begin()->first);
  newest_.clear();
}

std::vector<at::Tensor> VersionStore::make_leaves() const {
  std::vector<at::Tensor> leaves = masters_;
  for (const ParamId param : trained_) {
    leaves[param.index()] = masters_[param.index()].variable_data().requires_grad_(true);
  }
  return leaves;
}

const std::vector<at::Tensor>& VersionStore::leaves(std::int64_t version) {
  const auto kept = kept_.find(version);
  if (kept != kept_.end()) return kept->second;
  if (newest_.empty()) newest_ = make_leaves();
  return newest_;
}

void VersionStore::collect_gradients(std::int64_t version) {
  const std::vector<at::Tensor>& from = leaves(version);
  for (const ParamId param : trained_) {
    at::Tensor& gradient = from[param.index()].mutable_grad();
    masters_[param.index()].mutable_grad() = gradient;
    gradient.reset();
  }
}

void VersionStore::keep(std::int64_t version) {
  leaves(version);
  const bool fresh = kept_.emplace(version, std::exchange(newest_, {})).second;
  GP_CHECK(fresh, "version {} of the weights is kept already", version);
  const at::NoGradGuard no_gradients;
  for (const ParamId param : trained_) {
    const at::Tensor& master = masters_[param.index()];
    const at::Tensor gradient = master.grad();  // set_data() asks for one of the new tensor's kind
    master.set_data(master.detach().clone());
    master.mutable_grad() = gradient;
  }
}

void VersionStore::drop(std::int64_t version) {
  GP_CHECK(kept_.erase(version) == 1, "version {} of the weights is not kept", version);
}

}  // namespace graphpipe
