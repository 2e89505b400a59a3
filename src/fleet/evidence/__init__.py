"""What really happened: the ledger of attempts, the journals of events, and the receipts."""
