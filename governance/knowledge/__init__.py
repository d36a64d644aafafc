"""Knowledge documents: reading uploads, cutting them into chunks, deciding what is admitted."""
