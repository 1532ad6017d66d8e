// The layer map: each layer in exactly one chunk, under every cut (B49).
#include "src/config/layer_map.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <numeric>

#include "tests/unit/config/case.h"

namespace ogrom {
namespace {

ModelConfig model_of(i64 layers) {
    ModelConfig model;
    model.layers = layers;
    return model;
}

ParallelConfig stages(i64 pipeline, i64 virtual_stages, std::vector<i64> stage_layers = {}) {
    ParallelConfig parallel;
    parallel.pipeline = pipeline;
    parallel.virtual_stages = virtual_stages;
    parallel.stage_layers = std::move(stage_layers);
    return parallel;
}

// Walks the chunks in order of the forward pass: chunk 0 of every stage, then chunk 1 of every stage ...
void expect_complete(i64 layers, const ParallelConfig& parallel) {
    std::vector<std::vector<StageSpan>> all;
    for (i64 stage = 0; stage < parallel.pipeline; ++stage) {
        all.push_back(stage_spans(model_of(layers), parallel, stage));
        ASSERT_EQ(static_cast<i64>(all.back().size()), parallel.virtual_stages);
    }
    i64 next = 0;
    for (i64 chunk = 0; chunk < parallel.virtual_stages; ++chunk) {
        for (i64 stage = 0; stage < parallel.pipeline; ++stage) {
            const StageSpan& span = all[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
            EXPECT_EQ(span.stage, stage);
            EXPECT_EQ(span.chunk, chunk);
            EXPECT_EQ(span.first_layer, next);
            EXPECT_GT(span.last_layer, span.first_layer) << "no layer";
            EXPECT_EQ(span.embeds, stage == 0 && chunk == 0);
            EXPECT_EQ(span.heads, stage == parallel.pipeline - 1 && chunk == parallel.virtual_stages - 1);
            next = span.last_layer;
        }
    }
    EXPECT_EQ(next, layers);
}

TEST(LayerMap, B49EveryLayerStandsInExactlyOneChunk) {
    for (i64 pipeline = 1; pipeline <= 8; ++pipeline) {
        for (i64 v = 1; v <= 4; ++v) {
            for (i64 layers = pipeline * v; layers <= 40; ++layers) {
                SCOPED_TRACE(fmt::format("{} layers, {} stages, {} virtual stages", layers, pipeline, v));
                expect_complete(layers, stages(pipeline, v));
            }
        }
    }
}

TEST(LayerMap, EvenSplitDiffersByOneAtMostAndTheFirstPartsHoldMore) {
    for (i64 chunks = 1; chunks <= 32; ++chunks) {
        for (i64 layers = chunks; layers <= 40; ++layers) {
            const std::vector<i64> parts = even_split(layers, chunks);
            EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), i64{0}), layers);
            EXPECT_TRUE(std::is_sorted(parts.rbegin(), parts.rend()));
            EXPECT_LE(parts.front() - parts.back(), 1);
        }
    }
    EXPECT_EQ(even_split(30, 4), (std::vector<i64>{8, 8, 7, 7}));
    EXPECT_THROW(even_split(3, 4), Error);
}

TEST(LayerMap, OwnListIsTakenAsItStands) {
    expect_complete(10, stages(2, 2, {1, 2, 3, 4}));
    const std::vector<StageSpan> second = stage_spans(model_of(10), stages(2, 2, {1, 2, 3, 4}), 1);
    EXPECT_EQ(second[0].first_layer, 1);
    EXPECT_EQ(second[0].last_layer, 3);
    EXPECT_EQ(second[1].first_layer, 6);
    EXPECT_EQ(second[1].last_layer, 10);
    EXPECT_THROW(stage_spans(model_of(10), stages(2, 2, {1, 2, 3}), 0), Error);
    EXPECT_THROW(stage_spans(model_of(10), stages(2, 2, {1, 2, 3, 5}), 0), Error);
    EXPECT_THROW(stage_spans(model_of(10), stages(2, 1), 2), Error);
    EXPECT_THROW(stage_spans(model_of(10), stages(2, 1), -1), Error);
}

TEST(LayerMap, Text) {
    EXPECT_EQ(layer_map_text(model_of(13), stages(2, 2)), "stage 0: layers 0-3, 7-9; stage 1: layers 4-6, 10-12");
    EXPECT_EQ(layer_map_text(model_of(3), stages(2, 1)), "stage 0: layers 0-1; stage 1: layers 2");
    EXPECT_EQ(layer_map_text(model_of(1), stages(1, 1)), "stage 0: layers 0");
}

}  // namespace
}  // namespace ogrom
