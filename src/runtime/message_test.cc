#include "runtime/message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "graph/builder.h"

namespace graphpipe {
namespace {

// Two tensors cross from stage 0 to stage 1: one with a gradient, one of ids.
struct Fixture {
  Fixture() {
    GraphBuilder builder("g");
    const TensorId ids = builder.input("ids", DType::kInt64, {3});
    const TensorId picked = builder.slice("picked", ids, 0, 0, 3);
    const TensorId x = builder.embedding("x", ids, 10, 5);
    const TensorId y = builder.embedding("y", picked, 10, 5);
    builder.loss(builder.mse_loss("loss", builder.mean("m", x, 0), builder.mean("n", y, 0)), 1);
    graph = builder.graph();
    edge = {StageId(0), StageId(1), EdgeKind::kData, {picked, x}, true};
  }
  MessageLayout layout(Direction direction) const {
    return {graph, edge, direction, needs_gradient(graph)};
  }
  Graph graph;
  StageEdge edge;
};

TEST(MessageLayout, HasTheBytesThatTheScheduleSays) {
  const Fixture f;
  for (const std::int64_t samples : {1, 2, 7}) {
    EXPECT_EQ(f.layout(Direction::kForward).bytes(samples),
              message_bytes(f.graph, f.edge, samples, false));
    EXPECT_EQ(f.layout(Direction::kBackward).bytes(samples),
              message_bytes(f.graph, f.edge, samples, true));
  }
  const StageEdge order{StageId(0), StageId(1), EdgeKind::kOrder, {}, true};
  const MessageLayout empty(f.graph, order, Direction::kForward, needs_gradient(f.graph));
  EXPECT_EQ(empty.bytes(4), message_bytes(f.graph, order, 4, false));
}

TEST(MessageLayout, TensorsAreAlignedAndDoNotOverlap) {
  const Fixture f;
  const MessageLayout layout = f.layout(Direction::kForward);
  for (const std::int64_t samples : {1, 2, 7}) {
    EXPECT_EQ(layout.tensor_offset(0, samples), 128);
    EXPECT_EQ(layout.tensor_offset(1, samples) % 64, 0);
    EXPECT_GE(layout.tensor_offset(1, samples), 128 + layout.tensor_bytes(0, samples));
    EXPECT_GE(layout.ids_offset(samples),
              layout.tensor_offset(1, samples) + layout.tensor_bytes(1, samples));
    EXPECT_EQ(layout.bytes(samples), layout.ids_offset(samples) + 8 * samples);
  }
}

TEST(MessageLayout, WayBackCarriesWhatHasAGradient) {
  const Fixture f;
  EXPECT_EQ(f.layout(Direction::kForward).tensors(), f.edge.tensors);
  EXPECT_EQ(f.layout(Direction::kBackward).tensors(), std::vector<TensorId>{f.edge.tensors[1]});
  EXPECT_NE(f.layout(Direction::kForward).digest(), f.layout(Direction::kBackward).digest());
}

MessageHeader header() {
  MessageHeader h;
  h.magic = kMessageMagic;
  h.plan = 0x1234;
  h.tensors = 0x5678;
  h.iteration = 3;
  h.sequence = 7;
  h.lo = 4;
  h.hi = 8;
  h.bytes = 512;
  h.edge = 2;
  h.tensor_count = 1;
  h.training = 1;
  return h;
}

std::string fault(const std::function<void(MessageHeader&)>& spoil) {
  MessageHeader got = header();
  spoil(got);
  return header_fault(header(), got).value_or("");
}

TEST(HeaderFault, NamesTheFieldThatDiffers) {
  EXPECT_EQ(fault([](MessageHeader&) {}), "");
  EXPECT_EQ(fault([](MessageHeader& h) { h.magic = 0; }),
            "magic number: expected 6770697065303031, got 0000000000000000");
  EXPECT_EQ(fault([](MessageHeader& h) { h.plan = 0x1235; }),
            "plan: expected 0000000000001234, got 0000000000001235");
  EXPECT_EQ(fault([](MessageHeader& h) { h.edge = 1; }), "edge: expected 2, got 1");
  EXPECT_EQ(fault([](MessageHeader& h) { h.direction = 1; }),
            "direction: expected forward, got backward");
  EXPECT_EQ(fault([](MessageHeader& h) { h.training = 0; }),
            "phase: expected training, got evaluation");
  EXPECT_EQ(fault([](MessageHeader& h) { h.iteration = 2; }), "iteration: expected 3, got 2");
  EXPECT_EQ(fault([](MessageHeader& h) { h.lo = 0; }), "samples: expected [4,8), got [0,8)");
  EXPECT_EQ(fault([](MessageHeader& h) { h.sequence = 6; }), "sequence number: expected 7, got 6");
  EXPECT_EQ(fault([](MessageHeader& h) { h.tensor_count = 2; }),
            "number of tensors: expected 1, got 2");
  EXPECT_EQ(fault([](MessageHeader& h) { h.tensors = 0; }),
            "tensors' types and shapes: expected 0000000000005678, got 0000000000000000");
  EXPECT_EQ(fault([](MessageHeader& h) { h.bytes = 511; }), "bytes: expected 512, got 511");
}

TEST(IdsFault, NamesTheFirstSampleThatDiffers) {
  const std::vector<std::int64_t> expected = {17, 4};
  std::vector<std::byte> got(1 + 16);  // off by one byte: messages need not align ids
  std::memcpy(got.data() + 1, expected.data(), 16);
  EXPECT_EQ(ids_fault(expected, got.data() + 1, 5), std::nullopt);
  const std::int64_t other = 23;
  std::memcpy(got.data() + 9, &other, 8);
  EXPECT_EQ(ids_fault(expected, got.data() + 1, 5),
            "sample 6 of the mini-batch: expected id 4, got 23");
}

}  // namespace
}  // namespace graphpipe
