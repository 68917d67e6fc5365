// The weights of one stage of an asynchronous pipeline. The optimiser's tensors (masters) never
// enter autograd: what computes is given leaves that share their storage. Keeping a version gives
// the masters a storage of their own before a step writes to it, so that the leaves stay what
// they were. Autograd itself would not notice weights that an optimiser has changed under it.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

class VersionStore {
 public:
  // masters: [parameter of the graph], those of the stage defined; `trained`: which of them
  // versions are of, the others are there once. Outlived by the tensors.
  VersionStore(const std::vector<at::Tensor>& masters, std::vector<ParamId> trained);

  // A new stream: the newest weights are version 0. GP_CHECKs that none is kept.
  void begin();
  // [parameter of the graph], to compute with at this version: a kept one, or the newest.
  const std::vector<at::Tensor>& leaves(std::int64_t version);
  // Moves what a backward at this version has added to its leaves' gradients to the masters'.
  void collect_gradients(std::int64_t version);
  void keep(std::int64_t version);  // the newest
  void drop(std::int64_t version);

 private:
  std::vector<at::Tensor> make_leaves() const;

  std::vector<at::Tensor> masters_;
  std::vector<ParamId> trained_;
  std::vector<at::Tensor> newest_;  // its leaves; empty: not asked for yet
  std::map<std::int64_t, std::vector<at::Tensor>> kept_;
};

}  // namespace graphpipe
