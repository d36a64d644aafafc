-- The four roles of Credence and what they may do in one database.
--
-- Run it in the database that Credence is to live in, as a superuser, or as a role with CREATEROLE
-- and CREATEDB that owns the database (then the extension must be there), as often as you like:
--
--     createdb --template=template0 --encoding=UTF8 credence
--     psql --dbname=credence --set=ON_ERROR_STOP=1 --single-transaction --file=roles.sql
--
-- then give the three that log in a password each (\password credence_app, ...).
-- config/local/provision.py runs the same file for the embedded server.
--
--     credence_owner   owns every table; migrations (DATABASE_OWNER_URL)
--     credence_app     web and worker; row-level security holds for it (DATABASE_URL)
--     credence_maint   sweeps over all tenants, named and audited (DATABASE_MAINT_URL)
--     credence_lookup  owns the few functions that look before a scope is known; never logs in

-- 1. The roles. The defaults of CREATE ROLE are what we want: no superuser, no bypass of row-level
--    security, no new databases or roles.
DO $$
DECLARE
    wanted record;
    actual pg_roles%ROWTYPE;
BEGIN
    FOR wanted IN
        SELECT * FROM (VALUES
            ('credence_owner', true), ('credence_app', true),
            ('credence_maint', true), ('credence_lookup', false)
        ) AS roles (name, can_log_in)
    LOOP
        SELECT * INTO actual FROM pg_roles WHERE rolname = wanted.name;
        IF NOT FOUND THEN
            EXECUTE format('CREATE ROLE %I', wanted.name);
        ELSIF actual.rolsuper OR actual.rolbypassrls OR actual.rolreplication
           OR actual.rolcreatedb OR actual.rolcreaterole THEN
            EXECUTE format('ALTER ROLE %I NOSUPERUSER NOBYPASSRLS NOREPLICATION '
                           'NOCREATEDB NOCREATEROLE', wanted.name);
        END IF;
        EXECUTE format('ALTER ROLE %I %s', wanted.name,
                       CASE WHEN wanted.can_log_in THEN 'LOGIN' ELSE 'NOLOGIN' END);
    END LOOP;
END
$$;

-- 2. The owner may hand functions to credence_lookup, and does not inherit what that role may read.
GRANT credence_lookup TO credence_owner WITH INHERIT FALSE, SET TRUE;

-- A runner who is no superuser must be able to act as the owner for section 3.
DO $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT credence_owner TO %I WITH INHERIT TRUE, SET TRUE', current_user);
    END IF;
END
$$;

-- 3. The database: ours, and nobody else's.
DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I OWNER TO credence_owner', current_database());
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO credence_app, credence_maint',
                   current_database());
END
$$;

-- pgvector (0.8 or later) is not a trusted extension: a superuser, or the provider's own way,
-- creates it. When it is there already, this needs no right.
CREATE EXTENSION IF NOT EXISTS vector;

-- 4. The schema. Its owner (pg_database_owner) is now credence_owner, who may create there.
--    credence_lookup needs CREATE because a function's new owner must have it.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO credence_app, credence_maint, credence_lookup;
GRANT CREATE ON SCHEMA public TO credence_lookup;

-- 5. Limits, so that one bad statement or a forgotten transaction cannot hold the others up.
ALTER ROLE credence_app SET statement_timeout = '30s';
ALTER ROLE credence_app SET lock_timeout = '10s';
ALTER ROLE credence_app SET idle_in_transaction_session_timeout = '60s';

ALTER ROLE credence_maint SET statement_timeout = '15min';
ALTER ROLE credence_maint SET lock_timeout = '30s';
ALTER ROLE credence_maint SET idle_in_transaction_session_timeout = '5min';

-- A migration may take its time, but not queue everybody behind a lock it cannot get.
ALTER ROLE credence_owner SET lock_timeout = '30s';
