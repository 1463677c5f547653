"""The application's book of contract terms, for judging what clients report."""

from starlette.datastructures import State

from controlplane.store.contract_terms import ContractTermsBook


def contract_terms(state: State) -> ContractTermsBook:
    """Over the config database."""
    book: ContractTermsBook = state.contract_terms
    return book
