// The model as the pipeline sees it: the step's micro-batches through the
// stage, action by action.
#pragma once
#include <span>

#include "src/data/batch.h"
#include "src/pipeline/execute.h"
#include "src/train/engine.h"

namespace ogrom {

template <class T>
class ModelWork final : public StageWork {
public:
    // `batches[m]` is micro-batch m of the actions; both outlive this.
    ModelWork(Engine<T>& engine, std::span<const Batch> batches, const typename Stage<T>::StepInfo& info,
              Passes passes);
    void forward(const Action& action) override;
    void backward(const Action& action) override;
    void backward_input(const Action& action) override;
    void backward_weight(const Action& action) override;
    Boundary activation_in(const Action& action) override;
    Boundary activation_out(const Action& action) override;
    Boundary gradient(const Action& action) override;
    // Sum of the unmasked losses of all micro-batches so far (not scaled); 0
    // where this stage has no head.
    [[nodiscard]] double loss_sum() const { return loss_sum_; }

private:
    [[nodiscard]] const Batch& batch_of(const Action& action) const;
    [[nodiscard]] Boundary boundary(T* data) const;
    Engine<T>& engine_;
    std::span<const Batch> batches_;
    typename Stage<T>::StepInfo info_;
    Passes passes_;
    double loss_sum_ = 0;
};

// Runs a schedule of the engine's stage with that work.
template <class T>
void run_schedule(Engine<T>& engine, const StageSchedule& schedule, ModelWork<T>& work);

}  // namespace ogrom
