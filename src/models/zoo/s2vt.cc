// S2VT (Venugopalan et al., "Sequence to Sequence - Video to Text", ICCV 2015, figure 2): two
// LSTMs, one on the other. The lower one reads a video's frames and then nothing, while a caption
// is written; the upper one reads the lower one and the caption's words so far. 87,362,668
// parameters at the authors' sizes: 1000 hidden units, embeddings of 500, 4096 features a frame,
// 46,168 words.
//
// "words" is the caption behind its start mark, "label" the caption and its end mark: what
// comes next at each step. The paper ends the loss with the caption; here what fills up a short
// one counts as a word.

#include "models/zoo/parts.h"
#include "models/zoo/zoo.h"

namespace graphpipe {
namespace {

Graph build_s2vt(const ZooArguments& arguments, DType floating) {
  GraphBuilder g("s2vt", floating);
  const std::int64_t frames = arguments["frames"];
  const std::int64_t words = arguments["words"];
  const double dropout = rate(arguments, "dropout");
  TensorId video = g.input("frames", {frames, arguments["features"]});
  video = dropped(g, "frame.dropout", g.linear("frame.fc", video, arguments["embedding"]), dropout);
  video = g.lstm("lstm1", g.pad("frame.pad", video, {0, 0}, {words, 0}), arguments["hidden"]);
  TensorId caption = g.embedding("word.table", g.input("words", DType::kInt64, {words}),
                                 arguments["vocabulary"], arguments["embedding"]);
  caption = g.pad("word.pad", dropped(g, "word.dropout", caption, dropout), {frames, 0}, {0, 0});
  const TensorId both = concat_last(g, "concat", {video, caption});
  const TensorId states = g.lstm("lstm2", both, arguments["hidden"]);
  TensorId x = g.slice("written", states, 0, frames, words);
  x = dropped(g, "written.dropout", x, dropout);
  classification_head(g, g.linear("logits", x, arguments["vocabulary"]));
  return std::move(g).build();
}

}  // namespace

ZooModel s2vt_model() {
  return {"s2vt",
          "S2VT: captions of videos by two LSTMs (ICCV 2015)",
          {{"frames", 60, 1, 65536, "frames of a video"},
           {"words", 20, 1, 65536, "words of a caption; the paper has 80 steps in all"},
           {"features", 4096, 1, 1048576, "features of a frame"},
           {"embedding", 500, 1, 65536, "width of an embedded frame or word"},
           {"hidden", 1000, 1, 65536, "hidden units of an LSTM"},
           {"vocabulary", 46168, 2, 1048576, "words"},
           {"dropout", 500, 0, 900, "dropout rate, per mille"}},
          build_s2vt};
}

}  // namespace graphpipe
