def compute_scores(sample, solver_output):
    return {
        "distance": abs(len(str(solver_output.output)) - len(str(sample["answer"])))
    }
