"""The application's book of contract terms, for judging what clients report."""

from starlette.datastructures import State

from controlplane.store.contract_terms import ContractTermsBook


def contract_terms(state: State) -> ContractTermsBook:
    """Over the config database; made when it is first asked for."""
    book = getattr(state, "contract_terms", None)
    if not isinstance(book, ContractTermsBook):
        book = state.contract_terms = ContractTermsBook(state.config_db)
    return book
