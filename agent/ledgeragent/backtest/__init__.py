"""Backtests: the same calls judged with two policies, and every verdict that differs.

    lines      reads the files in pieces, from any place on
    sides      makes two sets of policies ready to be asked, and asks both
    compare    says what differs between two decisions, and which facts decide it
    run        has the pieces judged, here, by processes, or (`cluster`) by Ray
    journal    keeps what was found on disk, so that memory does not grow and a run can go on
    allowed    the changes that somebody meant
    summary    counts what the journal holds
    render     says it: table, JSON, a comment for a pull request

Nothing runs on what a backtest answers.
"""
